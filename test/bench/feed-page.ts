/**
 * A feed page of 1,000 records over HTTP against reading the same rows with `pg` alone in the same process, at the start
 * of a feed of 100,000 records and deep in it.
 */
import { Client } from 'pg';
import { type Installation, startInstalledService } from '#cli/installation.ts';
import { median, megabytes, printTable } from './figures.ts';
import { startLoad } from './load.ts';

const recordsInFeed = 100_000;
const pageSize = 1_000;
/** Where the deep page begins. */
const depth = 95_000;
const rounds = 9;
const readsPerRound = 15;

/** Runs it; prints both times and their ratio for both places, and what the depth costs. */
export async function benchFeedPage(installation: Installation): Promise<void> {
  const service = await startInstalledService(installation, { port: 0 });
  const load = startLoad();
  const client = new Client({ connectionString: installation.open.url });
  await client.connect();
  const rssBefore = process.memoryUsage.rss();
  try {
    const { organisation, key } = await createOrganisation(service.url, installation.adminToken);
    await fillFeed(client, organisation);
    const port = Number(new URL(service.url).port);
    const get = (path: string) =>
      `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const overHttp = async (path: string) => {
      const requests = Array.from({ length: readsPerRound }, () => get(path));
      return median((await load.run({ port, connections: 1, requests })).latenciesMs);
    };
    const withPg = async (after: string | undefined) => {
      const times: number[] = [];
      for (let read = 0; read < readsPerRound; read += 1) {
        const began = performance.now();
        const { rows } = await client.query(
          `select body from service.feed_records
           where organisation_id = $1 and feed = 'awards' and visible and modified >= $2
           order by modified limit ${pageSize}`,
          [organisation, after ?? '-infinity'],
        );
        times.push(performance.now() - began);
        if (rows.length !== pageSize) throw new Error(`The page has ${rows.length} rows.`);
      }
      return median(times);
    };
    const deep = stampOf(depth);
    const first = `/api/feeds/awards?page_size=${pageSize}`;
    const places = [
      { name: 'page 1', path: first, after: undefined, http: [] as number[], pg: [] as number[] },
      {
        name: `page ${depth / pageSize + 1}`,
        path: `${first}&modified_after=${deep}`,
        after: deep,
        http: [] as number[],
        pg: [] as number[],
      },
    ];
    for (let round = -1; round < rounds; round += 1)
      for (const place of places) {
        const http = await overHttp(place.path);
        const pg = await withPg(place.after);
        // The first round only warms up.
        if (round < 0) continue;
        place.http.push(http);
        place.pg.push(pg);
      }
    const page = await fetch(service.url + first, { headers: { authorization: `Bearer ${key}` } });
    const bytes = (await page.arrayBuffer()).byteLength;
    const ratio = (a: readonly number[], b: readonly number[]) =>
      median(a.map((each, round) => each / (b[round] ?? Number.NaN))).toFixed(2);
    console.log(
      `A feed page of ${pageSize} records (${Math.round(bytes / 1024)} kB) over HTTP against pg alone, ${recordsInFeed} records in the feed`,
    );
    printTable([
      ['place', 'over HTTP', 'pg alone', 'HTTP : pg'],
      ...places.map(({ name, http, pg }) => [
        name,
        `${median(http).toFixed(1)} ms`,
        `${median(pg).toFixed(1)} ms`,
        ratio(http, pg),
      ]),
    ]);
    const [begin, end] = places;
    if (begin && end) console.log(`  ${end.name} : page 1 over HTTP ${ratio(end.http, begin.http)}`);
    console.log(`  memory ${megabytes(rssBefore)} before, ${megabytes(process.memoryUsage.rss())} after\n`);
  } finally {
    await load.close();
    await client.end();
    await service.close(0);
  }
}

/** Of the record at this place: one record each millisecond. */
function stampOf(place: number): string {
  return `${new Date(Date.UTC(2026, 0, 1) + place).toISOString().slice(0, -1)}000Z`;
}

/** Records as large as a lot's award to one supplier with a bid sheet of six columns. */
async function fillFeed(client: Client, organisation: string): Promise<void> {
  await client.query(
    `insert into service.feed_records
       (organisation_id, feed, id, modified, sourcing_event, status, visible, content_hash, body)
     select $1, 'awards', id, modified, event, null, true, sha256(id::bytea),
       json_build_object('id', id, 'sourcing_event', event, 'lot_name', 'Lot ' || place, 'scenario_name', 'Best price',
         'awards', json_build_array(json_build_object('supplier', event, 'share_awarded', '1', 'cost', '12345.67',
           'savings', '345.67', 'historic_cost', '12691.34', 'bid_sheet_values', (
             select json_agg(json_build_object('column', 'Column ' || c, 'value', (place * c)::text))
             from generate_series(1, 6) c))),
         'modified', to_char(modified at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text
     from (
       select place, gen_random_uuid()::text as id, md5((place / 50)::text)::uuid as event,
         timestamptz '2026-01-01T00:00:00Z' + place * interval '1 millisecond' as modified
       from generate_series(0, $2 - 1) place
     ) as record`,
    [organisation, recordsInFeed],
  );
  await client.query('vacuum analyze service.feed_records');
}

async function createOrganisation(url: string, adminToken: string): Promise<{ organisation: string; key: string }> {
  const post = async (path: string, body: object): Promise<Record<string, string>> => {
    const answer = await fetch(`${url}/admin/organisations${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`POST /admin/organisations${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Record<string, string>;
  };
  const organisation = String((await post('', { name: 'Bench' }))['id']);
  const { key } = await post(`/${organisation}/api-keys`, { name: 'bench', scopes: ['feeds'] });
  return { organisation, key: String(key) };
}
