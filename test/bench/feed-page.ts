/**
 * A feed page of 1,000 records out of a million, over HTTP, at its start, deep in it and where `modified_after` leads:
 * against a bare `node:http` server in the same process that reads the same rows with `pg` and writes them out. Then the
 * whole feed, page after page, for the memory that this takes.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from 'pg';
import { type Installation, startInstalledService } from '#cli/installation.ts';
import { median, megabytes, printTable } from './figures.ts';
import { type Load, startLoad } from './load.ts';
import { createOrganisation } from './set-up.ts';

const recordsInFeed = 1_000_000;
const pageSize = 1_000;
const pages = recordsInFeed / pageSize;
const rounds = 21;
const readsPerRound = 7;

interface Place {
  readonly name: string;
  /** The number of the first record on the page. */
  readonly first: number;
  readonly path: string;
  readonly service: number[];
  readonly bare: number[];
}

/** Runs it; prints for each place both times, their ratio, and what the place costs against page 1. */
export async function benchFeedPage(installation: Installation): Promise<void> {
  const service = await startInstalledService(installation, { port: 0 });
  const load = startLoad();
  const client = new Client({ connectionString: installation.open.url });
  await client.connect();
  const bare = await listenBare(client);
  try {
    const { organisation, key } = await createOrganisation(service.url, await installation.adminToken(), ['feeds']);
    await fillFeed(client, organisation);
    const read = async (path: string) => {
      const answer = await fetch(service.url + path, { headers: { authorization: `Bearer ${key}` } });
      return { answer, text: await answer.text() };
    };
    /** The path of a page as `next` gives it on the page before. */
    const pageAt = async (first: number) => {
      const { text } = await read(`${feedPath}&modified_after=${stampOf(first - pageSize)}`);
      const { next } = JSON.parse(text) as { next: string };
      return `${feedPath}&cursor=${new URL(next).searchParams.get('cursor')}`;
    };
    const place = (name: string, first: number, path: string): Place => ({ name, first, path, service: [], bare: [] });
    const middle = (pages / 2 - 1) * pageSize;
    const end = (pages - 1) * pageSize;
    const places = [
      place('page 1', 0, feedPath),
      place(`page ${pages / 2}`, middle, await pageAt(middle)),
      place(`page ${pages}`, end, await pageAt(end)),
      place('modified_after', 250_500, `${feedPath}&modified_after=${stampOf(250_500)}`),
    ];
    const { text } = await read(feedPath);
    console.log(
      `A feed page of ${pageSize} records (${Math.round(text.length / 1024)} kB) out of ${recordsInFeed.toLocaleString('en')}, against pg and node:http alone`,
    );
    const over = (port: number, path: string, credentials = '') =>
      timeOf(load, port, `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${credentials}\r\n`);
    for (let round = -1; round < rounds; round += 1)
      for (const each of places) {
        const ofService = await over(Number(new URL(service.url).port), each.path, `Authorization: Bearer ${key}\r\n`);
        const ofBare = await over(bare.port, `/${organisation}/${stampOf(each.first)}`);
        // The first round only warms up.
        if (round < 0) continue;
        each.service.push(ofService);
        each.bare.push(ofBare);
      }
    printPlaces(places);
    const walk = (from: number, to: number) =>
      load.run({
        port: Number(new URL(service.url).port),
        connections: 1,
        requests: Array.from(
          { length: to - from },
          (_, index) =>
            `GET ${feedPath}&modified_after=${stampOf((from + index) * pageSize)} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`,
        ),
      });
    await walk(0, pages / 4);
    const early = process.memoryUsage.rss();
    const { elapsedMs } = await walk(pages / 4, pages);
    console.log(
      `  memory ${megabytes(early)} after ${pages / 4} pages, ${megabytes(process.memoryUsage.rss())} after all`,
    );
    console.log(`  ${Math.round(((pages * 3) / 4 / elapsedMs) * 1000 * pageSize).toLocaleString('en')} records/s\n`);
  } finally {
    await bare.close();
    await load.close();
    await client.end();
    await service.close(0);
  }
}

/** Its pages have 1,000 records. */
export const feedPath = `/api/feeds/awards?page_size=${pageSize}`;

async function timeOf(load: Load, port: number, request: string): Promise<number> {
  const requests = Array.from({ length: readsPerRound }, () => request);
  return median((await load.run({ port, connections: 1, requests })).latenciesMs);
}

function printPlaces(places: readonly Place[]): void {
  const ratio = (a: readonly number[], b: readonly number[]) =>
    median(a.map((each, round) => each / (b[round] ?? Number.NaN))).toFixed(2);
  const [begin] = places;
  printTable([
    ['place', 'service', 'pg + node:http', 'ratio', 'to page 1'],
    ...places.map(({ name, service, bare }) => [
      name,
      `${median(service).toFixed(2)} ms`,
      `${median(bare).toFixed(2)} ms`,
      ratio(service, bare),
      ratio(service, begin?.service ?? []),
    ]),
  ]);
}

/** The least that could be done: `/{organisation}/{stamp}` gives the rows from there on as one JSON list. */
async function listenBare(client: Client): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer((request, response) => {
    const [, organisation, stamp] = (request.url ?? '').split('/');
    void client
      .query<{ body: string }>({
        name: 'page',
        text: `select body from service.feed_records
               where organisation_id = $1 and feed = 'awards' and visible and modified >= $2
               order by modified limit ${pageSize}`,
        values: [organisation, stamp],
      })
      .then(({ rows }) => {
        const body = Buffer.from(`[${rows.map((row) => row.body).join(',')}]`);
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
        response.end(body);
      });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Of the record with this number: one record each millisecond. */
export function stampOf(number: number): string {
  return `${new Date(Date.UTC(2026, 0, 1) + number).toISOString().slice(0, -1)}000Z`;
}

/** Records as large as a lot's award to one supplier with a bid sheet of six columns. */
export async function fillFeed(client: Client, organisation: string, records = recordsInFeed): Promise<void> {
  await client.query(
    `insert into service.feed_records (organisation_id, feed, id, modified, sourcing_event, visible, content_hash, body)
     select $1, 'awards', id, modified, event, true, '',
       format('{"id":"%s","sourcing_event":"%s","lot_name":"Lot %s","scenario_name":"Best price","awards":[%s],"modified":"%s"}',
         id, event, number, award, to_char(modified at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
     from (
       select number, '00000000-0000-4000-8000-' || lpad(to_hex(number), 12, '0') as id,
         ('00000000-0000-4000-9000-' || lpad(to_hex(number / 50), 12, '0'))::uuid as event,
         timestamptz '2026-01-01T00:00:00Z' + number * interval '1 millisecond' as modified
       from generate_series(0, $2 - 1) as number
     ) as record, (
       select format('{"supplier":"%s","share_awarded":"1","cost":"12345.67","savings":"345.67","historic_cost":"12691.34","bid_sheet_values":[%s]}',
         gen_random_uuid(), string_agg(format('{"column_name":"Column %s","value":"%s"}', c, c * 7919), ',')) as award
       from generate_series(1, 6) as c
     ) as awarded`,
    [organisation, records],
  );
  await client.query('vacuum analyze service.feed_records');
}
