/** How SAP behaves where the public texts disagree, or where nobody has shown it: each is tried both ways. */
export interface Behaviour {
  /** The answer to a POST shows what was sent, not what SAP has made of it. */
  readonly echoesPosts: boolean;
  /** Numbers have zeros before them: `0017300001`, item `00010`. */
  readonly padsNumbers: boolean;
  /** One ETag stands for a whole document: each change of a part changes it. */
  readonly sharesEtags: boolean;
  /** A proxy holds a CSRF token for each service. */
  readonly tokensPerService: boolean;
  /** Orders and contracts are approved when they are made (SAP Learning: the default of the public cloud). */
  readonly approvesAtOnce: boolean;
  /** A deleted order has the deletion code at its header, too. KBA 3070935: the header's stays empty. */
  readonly marksHeader: boolean;
  /** An info record with a price makes a condition of it, from today to 9999-12-31. */
  readonly makesConditions: boolean;
  /** A contract that starts later shows the net price 0.00 (KBA 3703619). */
  readonly hidesLaterPrices: boolean;
  /** The last byte of an attachment is lost: none is known that does so. */
  readonly cutsAttachments: boolean;
  /** Whether the system has API_PURCHASEORDER_2 (V4); older releases of it change no texts of orders (its metadata). */
  readonly v4: 'none' | 'whole' | 'without changes of notes';
}

export const usualBehaviour: Behaviour = {
  echoesPosts: false,
  padsNumbers: false,
  sharesEtags: false,
  tokensPerService: false,
  approvesAtOnce: false,
  marksHeader: false,
  makesConditions: true,
  hidesLaterPrices: true,
  cutsAttachments: false,
  v4: 'whole',
};

/** Each differs from the usual one in what its sources leave open. */
export const otherBehaviours: readonly (readonly [string, Partial<Behaviour>])[] = [
  ['answers show what was sent', { echoesPosts: true }],
  ['numbers have zeros before them', { padsNumbers: true }],
  ['one ETag stands for a document', { sharesEtags: true }],
  ['each service has its CSRF token', { tokensPerService: true }],
  ['documents are approved at once', { approvesAtOnce: true, marksHeader: true }],
  [
    'info records make no conditions, and later contracts show their prices',
    { makesConditions: false, hidesLaterPrices: false },
  ],
];
