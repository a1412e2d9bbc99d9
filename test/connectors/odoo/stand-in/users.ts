/** The users of the stand-in, by their ids in the recorded Odoo. */
export const users = { admin: 2, connector: 5, weak: 6 } as const;
