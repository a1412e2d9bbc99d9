/** Where an assistant asks over HTTP. The access check lets every role send there; the tools check what it may do. */
export const assistantPath = '/mcp';
