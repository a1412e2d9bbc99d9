/** How long one delivery may take, and how much of its answer is read. Source: decisions, "Webhooks". */

/** For the whole delivery of one notification, the requests to the token server included. */
export const exchangeMs = 15_000;

/** Bytes of the receiver's answer that are read. The rest is cut off. */
export const responseBytesMax = 64 * 1024;
