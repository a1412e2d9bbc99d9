/** The service's APIs: the public contract, and those of the desk and of the operator. */
export const apiNames = ['public', 'desk', 'admin'] as const;
export type ApiName = (typeof apiNames)[number];
