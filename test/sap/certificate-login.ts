/**
 * A TLS server before the stub that asks its clients for a certificate, and logs the one in whose certificate it knows, as
 * SAP does with a rule (CERTRULE). Other clients get SAP's 401.
 */
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { loadX509 } from '#platform/x509-library.ts';
import { closeAtEnd } from '../harness/close-at-end.ts';
import { testCertificates } from '../harness/test-certificates.ts';
import { login } from './sap-system.ts';

export interface ClientCertificate {
  readonly certPem: string;
  /** Key and certificate, as the connector reads them from one file. */
  readonly pem: string;
}

/** A certificate of its own authority, for TLS clients. */
export async function createClientCertificate(name: string): Promise<ClientCertificate> {
  const x509 = await loadX509();
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [name] }],
    notAfter: new Date(Date.now() + 86_400_000),
    signingAlgorithm: algorithm,
    keys,
    extensions: [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])],
  });
  const certPem = `${certificate.toString('pem')}\n`;
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  const lines = key.match(/.{1,64}/g)?.join('\n');
  return { certPem, pem: `-----BEGIN PRIVATE KEY-----\n${lines}\n-----END PRIVATE KEY-----\n${certPem}` };
}

/** Starts the server, and stops it after the test file. Returns its URL; `testCertificates().caPem` is its authority. */
export async function startCertificateLogin(sap: string, { certPem: known }: ClientCertificate): Promise<string> {
  const { certPem, keyPem } = testCertificates();
  const authorization = `Basic ${Buffer.from(`${login.user}:${login.password}`).toString('base64')}`;
  const options = { cert: certPem, key: keyPem, ca: known, requestCert: true, rejectUnauthorized: false };
  const server = createServer(options, (request, response) => {
    const { method, headers } = request;
    // The certificate is its own authority: no other one is authorized.
    if (!(request.socket as TLSSocket).authorized || headers.authorization !== undefined)
      return void response.writeHead(401, { 'content-type': 'text/html' }).end('<html>Logon failed</html>');
    const onwards = httpRequest(
      `${sap}${request.url}`,
      { method, headers: { ...headers, authorization } },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    onwards.on('error', () => response.destroy());
    request.pipe(onwards);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeAtEnd(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `https://localhost:${(server.address() as AddressInfo).port}`;
}
