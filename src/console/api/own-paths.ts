/** Calls below it change what is the person's own: every role may make them. */
export const ownPaths = '/api/account/';
