/**
 * Twenty awards, each changed twice, while SAP and its users do what they do: approvals, a block, a person's change,
 * a refused item in the middle of an amend, locks, prices of SAP's own, kills and lost answers at every third request. The
 * test stands in for the bridge: it looks up after a doubt, and tries again. At the end each award is exactly one order,
 * and each order is one version of its award, never a mixture; those that persons hold are as the persons left them.
 */
import { beforeAll, expect, test } from 'vitest';
import type { Operation, Outcome, Session } from '#connector/connector.ts';
import type { AwardDocument } from '#connector/documents.ts';
import { testContext } from '#connector/testing/test-context.ts';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { keyMarker } from '../../../connectors/sap-s4hana/markers.ts';
import { seededRandom } from '../../faults/seeded-random.ts';
import { otherBehaviours, usualBehaviour } from '../../sap/behaviour.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { awardOf, lineOf, never, operationOf } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

const service = 'API_PURCHASEORDER_PROCESS_SRV';
const lots = ['A', 'B', 'C', 'D', 'E'];
const attemptsMax = 12;

/** Version 0 is the award as it was made; each later one has another price and quantity for each lot. */
function versionOf(award: AwardDocument, version: number): AwardDocument {
  const line = (lot: string, index: number) =>
    lineOf(lot, { quantity: String(4 + version), unit_price: `${version + 1}.${index + 1}` });
  return { ...award, lines: lots.map(line) };
}

describeSap('a story of 20 awards', () => {
  let system: SapSystem;
  beforeAll(async () => {
    system = await startTestSap();
  });

  /** A process of the bridge, which a kill ends: its session and all that it remembers. */
  async function start(): Promise<Session> {
    return sap.open(sap.settings.parse(sapSettings(system.url, { connections: 1 })), testContext().context);
  }

  async function orderOf({ key }: AwardDocument): Promise<Entity[]> {
    const filter = encodeURIComponent(`CorrespncExternalReference eq '${keyMarker(key)}'`);
    const path = `${service}/A_PurchaseOrder?$filter=${filter}&$expand=to_PurchaseOrderItem&$format=json`;
    const { results } = await system.ask('GET', path);
    const isDeleted = (order: Entity) =>
      (order['to_PurchaseOrderItem'].results as Entity[]).every(
        (item) => item['PurchasingDocumentDeletionCode'] === 'L',
      );
    return (results as Entity[]).filter((order) => !isDeleted(order));
  }

  /** The version that all items have; undefined for a mixture. */
  function versionHeld(order: Entity): number | undefined {
    const versions = (order['to_PurchaseOrderItem'].results as Entity[]).map((item, index) => {
      const version = Number(item['OrderQuantity']) - 4;
      const price = Number(item['NetPriceAmount']) / Number(item['NetPriceQuantity']);
      return price === Number(`${version + 1}.${index + 1}`) ? version : undefined;
    });
    return new Set(versions).size === 1 ? versions[0] : undefined;
  }

  const random = seededRandom(20);
  const disturbances: string[] = [];
  let count = 0;
  /** At every third operation SAP's answer is lost, or the process is killed, before or after SAP has done its work. */
  function disturb(): boolean {
    count += 1;
    if (count % 3 !== 0) return false;
    const [method, path] = random.upTo(3) < 2 ? ['POST', /\$batch$|A_PurchaseOrder$/] : ['GET', /A_PurchaseOrder$/];
    const isAnswerLost = random.upTo(2) < 1;
    const isKilled = random.upTo(2) < 1;
    disturbances.push(`${method}, ${isAnswerLost ? 'answer lost' : 'not sent'}${isKilled ? ', killed' : ''}`);
    system.inject({ method, path, status: 503, isAnswerLost });
    return isKilled;
  }

  /** As the bridge does: after a doubt it looks up, and writes again until it has an answer. */
  async function deliver(session: Session, operation: Operation): Promise<[Session, Outcome]> {
    let by = session;
    let action = operation.action;
    let reference = operation.reference;
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const isKilled = attempt < 3 && disturb();
      const [outcome] = await by.write([{ ...operation, action, reference }], never);
      system.calm();
      if (isKilled) {
        await by.close();
        by = await start();
      }
      if (outcome && outcome.status !== 'unknown' && outcome.status !== 'retry' && !isKilled) return [by, outcome];
      const found = await by.lookup([operation.document], never).catch(() => undefined);
      const [only] = found ?? [];
      if (only && 'reference' in only) {
        if (only.contentHash === operation.contentHash) return [by, { status: 'updated', reference: only.reference }];
        action = 'amend';
        reference = only.reference;
      }
    }
    throw new Error(`no outcome after ${attemptsMax} attempts`);
  }

  const itemPath = (number: string, item: string) =>
    `${service}/A_PurchaseOrderItem(PurchaseOrder='${number}',PurchaseOrderItem='${item}')`;

  const isFullRun = process.env['SAP_FULL'] === '1';
  test.each([['as usual', usualBehaviour] as const, ...(isFullRun ? otherBehaviours : [])])(
    'each is exactly one order, and none is half changed: %s',
    { timeout: 240_000 },
    async (_how, behaviour) => {
      system.behave({ ...usualBehaviour, ...behaviour });
      let session = await start();
      const awards = Array.from({ length: 20 }, () => versionOf(awardOf(), 0));
      const numbers = new Map<AwardDocument, string>();
      for (const award of awards) {
        const [by, outcome] = await deliver(session, operationOf('create', award));
        session = by;
        expect(outcome).toMatchObject({ reference: expect.stringContaining('PurchaseOrder/') });
        numbers.set(award, (outcome as { reference: string }).reference.replace('PurchaseOrder/', ''));
      }
      const [blocked, changed, refused, approved, waiting] = awards as [
        AwardDocument,
        AwardDocument,
        AwardDocument,
        AwardDocument,
        AwardDocument,
      ];
      const numberOf = (award: AwardDocument) => numbers.get(award) ?? '';
      await system.ask('PATCH', itemPath(numberOf(blocked), '20'), { PurchasingDocumentDeletionCode: 'S' });
      await system.ask('PATCH', itemPath(numberOf(changed), '30'), { OrderQuantity: '99' });
      await system.ask('PATCH', `${service}/A_PurchaseOrder('${numberOf(approved)}')`, {
        PurchasingProcessingStatus: '05',
      });
      await system.ask('PATCH', `${service}/A_PurchaseOrder('${numberOf(waiting)}')`, {
        PurchasingProcessingStatus: '03',
      });

      const conflicts = new Map<AwardDocument, number>();
      for (const version of [1, 2])
        for (const award of awards) {
          const reference = `PurchaseOrder/${numberOf(award)}`;
          const isRefused = award === refused && version === 1;
          if (isRefused)
            system.inject({ method: 'PATCH', path: /Item='0*30'\)$/, status: 400, message: 'Price is fixed' });
          const operation = operationOf('amend', versionOf(award, version), reference);
          const [by, outcome] = isRefused
            ? [session, (await session.write([operation], never))[0] as Outcome]
            : await deliver(session, operation);
          session = by;
          if (outcome.status === 'rejected') conflicts.set(award, (conflicts.get(award) ?? 0) + 1);
        }
      await session.close();

      // Each kind of them: before and after SAP has done its work, with and without a kill.
      expect(new Set(disturbances).size).toBe(8);
      expect([...conflicts]).toEqual([
        [blocked, 2],
        [changed, 2],
        [refused, 1],
      ]);
      for (const award of awards) {
        const orders = await orderOf(award);
        expect(orders.map((order) => order['PurchaseOrder'])).toEqual([numberOf(award)]);
        const [order] = orders as [Entity];
        // A person's change is the only mixture.
        const expected = award === blocked ? 0 : award === changed ? undefined : 2;
        expect(versionHeld(order)).toBe(expected);
      }
      expect(await orderOf(changed)).toMatchObject([
        { to_PurchaseOrderItem: { results: [{ OrderQuantity: '4.000' }, {}, { OrderQuantity: '99.000' }, {}, {}] } },
      ]);
    },
  );
});
