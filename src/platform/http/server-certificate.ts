/** The certificate of a server with its key, as PEM. */
export interface ServerCertificate {
  readonly certPem: string;
  readonly keyPem: string;
  /** Where both may be replaced while the server runs: `apply` is called each time that they were. */
  readonly onRenewed?: (apply: () => void) => void;
  /** Why what stands in the files now is not served; undefined: it is. */
  readonly refused?: string | undefined;
}
