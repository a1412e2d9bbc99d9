/** A REST server that reads what it is sent and answers 201 with a number. A process of its own: it is not measured. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

let number = 0;

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume().once('end', () => {
    number += 1;
    const body = `{"id":"${number}","status":"stored"}`;
    response.writeHead(201, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
  });
});

server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
