/** Requisitions of SAP that show what became of them, against the stub. */
import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Acknowledgement } from '#connector/acknowledgements.ts';
import type { Outcome, Session } from '#connector/connector.ts';
import { testContext } from '#connector/testing/test-context.ts';
import sap from '../../../connectors/sap-s4hana/index.ts';
import { closeAtEnd } from '../../harness/close-at-end.ts';
import type { Entity } from '../../sap/business-rules.ts';
import { describeSap, startTestSap } from '../../sap/sap-in-tests.ts';
import type { SapSystem } from '../../sap/sap-system.ts';
import { never } from './documents.ts';
import { sapSettings } from './sap-settings.ts';

const service = 'API_PURCHASEREQ_PROCESS_SRV';
const noteSet = `${service}/A_PurchaseReqnItemText`;

describeSap('a requisition in SAP', () => {
  let system: SapSystem;
  let session: Session;
  beforeAll(async () => {
    system = await startTestSap();
    session = await open({});
  });
  beforeEach(() => void system.requests());

  async function open(more: Readonly<Record<string, unknown>>): Promise<Session> {
    const opened = await sap.open(sap.settings.parse(sapSettings(system.url, more)), testContext().context);
    closeAtEnd(() => opened.close());
    return opened;
  }

  let numbers = 20_000_000;
  /** As a user of SAP: with these items, and the texts that they have. */
  async function raise(items: Readonly<Record<string, Entity>>): Promise<string> {
    numbers += 1;
    const number = String(numbers);
    await system.ask('POST', `${service}/A_PurchaseRequisitionHeader`, {
      PurchaseRequisition: number,
      to_PurchaseReqnItem: Object.entries(items).map(([item, more]) => ({
        PurchaseRequisition: number,
        PurchaseRequisitionItem: item,
        IsDeleted: '',
        ...more,
      })),
    });
    return number;
  }

  const keyOf = (number: string, item: string) => ({
    PurchaseRequisition: number,
    PurchaseRequisitionItem: item,
    DocumentText: 'B02',
    TechnicalObjectType: 'EBAN',
    Language: 'EN',
  });
  const writeNote = (number: string, item: string, NoteDescription: string, more: Entity = {}) =>
    system.ask('POST', noteSet, { ...keyOf(number, item), NoteDescription, ...more });
  const changeNote = (number: string, item: string, NoteDescription: string) => {
    const key = Object.entries(keyOf(number, item)).map(([name, value]) => `${name}='${value}'`);
    return system.ask('PATCH', `${noteSet}(${key.join(',')})`, { NoteDescription });
  };

  /** The texts by item. */
  async function notesOn(number: string): Promise<Record<string, string>> {
    const filter = encodeURIComponent(`PurchaseRequisition eq '${number}'`);
    const { results } = await system.ask('GET', `${noteSet}?$filter=${filter}&$format=json`);
    return Object.fromEntries(
      (results as Entity[]).map((note) => [note['PurchaseRequisitionItem'], note['NoteDescription']]),
    );
  }

  async function tell(given: Acknowledgement, by: Session = session): Promise<Outcome | undefined> {
    return (await by.acknowledge?.([given], never))?.[0];
  }

  const changes = () => system.requests().filter((request) => !request.startsWith('GET'));

  test('shows the newest news in a note of each item that is not deleted; the same news is not written again', async () => {
    const number = await raise({ '10': {}, '20': {}, '30': { IsDeleted: 'X' } });
    const created = newsOf(number, 'The event was made of it');
    const told = { status: 'updated', reference: `PurchaseRequisition/${number}` };
    expect(await tell(created)).toEqual(told);
    expect(await notesOn(number)).toEqual({ '10': shown(created), '20': shown(created) });
    system.requests();
    expect(await tell(created)).toEqual({ ...told, status: 'unchanged' });
    expect(changes()).toEqual([]);
    const published = newsOf(number, 'The event is published');
    expect(await tell(published)).toEqual(told);
    expect(changes()).toHaveLength(2);
    expect(await notesOn(number)).toEqual({ '10': shown(published), '20': shown(published) });
  });

  test('keeps what a person wrote in the note before and after the news, and replaces the news wherever SAP breaks its lines', async () => {
    const number = await raise({ '10': {} });
    await writeNote(number, '10', 'Call before delivery.\r\nGate 3.');
    const created = newsOf(number, 'The event was made of it');
    await tell(created);
    expect(await notesOn(number)).toEqual({ '10': `Call before delivery.\nGate 3.\n${shown(created)}` });
    const broken = shown(created).replace('was made', 'was\r\nmade');
    await changeNote(number, '10', `Call before delivery.\r\n${broken}\r\nTwo pallets.`);
    expect(await tell(created)).toMatchObject({ status: 'unchanged' });
    const awarded = newsOf(number, 'The event is awarded');
    await tell(awarded);
    expect(await notesOn(number)).toEqual({ '10': `Call before delivery.\nTwo pallets.\n${shown(awarded)}` });
  });

  test('keeps what a person writes between the read and the write', async () => {
    const number = await raise({ '10': {} });
    const created = newsOf(number, 'The event was made of it');
    // Without a note the connector makes one; a person was quicker, so SAP refuses it.
    const refusal = { method: 'POST', path: 'to_PurchaseReqnItemText', status: 400, message: 'Text already exists' };
    system.inject({ ...refusal, before: () => writeNote(number, '10', 'Gate 3.') });
    expect(await tell(created)).toMatchObject({ status: 'updated' });
    expect(await notesOn(number)).toEqual({ '10': `Gate 3.\n${shown(created)}` });
    const published = newsOf(number, 'The event is published');
    const changed = { method: 'PATCH', path: 'A_PurchaseReqnItemText', status: 412 };
    system.inject({ ...changed, before: () => changeNote(number, '10', `Gate 4.\n${shown(created)}`) });
    expect(await tell(published)).toMatchObject({ status: 'updated' });
    expect(await notesOn(number)).toEqual({ '10': `Gate 4.\n${shown(published)}` });
  });

  test('is told later while a user has it open, and while SAP says again and again that its text has changed', async () => {
    const number = await raise({ '10': {} });
    const created = newsOf(number, 'The event was made of it');
    system.lock(number);
    const locked = { status: 'retry', error: { type: 'locked', message: expect.stringContaining('is locked') } };
    expect(await tell(created)).toMatchObject(locked);
    expect(await notesOn(number)).toEqual({});
    system.unlock(number);
    expect(await tell(created)).toMatchObject({ status: 'updated' });
    for (let times = 0; times < 2; times += 1)
      system.inject({ method: 'PATCH', path: 'A_PurchaseReqnItemText', status: 412 });
    const published = newsOf(number, 'The event is published');
    expect(await tell(published)).toMatchObject({ status: 'retry', error: { type: 'locked' } });
    expect(await tell(published)).toMatchObject({ status: 'updated' });
    expect(await notesOn(number)).toEqual({ '10': shown(published) });
  });

  test('that SAP refuses to change is refused in its words, and the other one of the call is told', async () => {
    const [first, second] = [await raise({ '10': {} }), await raise({ '10': {} })];
    const given = [newsOf(first, 'The event is closed'), newsOf(second, 'The event is closed')];
    const refusal = { method: 'POST', path: `PurchaseRequisition='${first}'`, status: 400 };
    system.inject({ ...refusal, message: 'Requisition is released: changes are not allowed' });
    expect(await session.acknowledge?.(given, never)).toMatchObject([
      {
        status: 'rejected',
        error: { type: 'data', message: expect.stringContaining('Requisition is released: changes are not allowed') },
      },
      { status: 'updated' },
    ]);
    expect(await notesOn(first)).toEqual({});
    expect(await notesOn(second)).toEqual({ '10': shown(given[1] as Acknowledgement) });
  });

  test('with deleted items only is left as it is, which is no failure', async () => {
    const number = await raise({ '10': { IsDeleted: 'X' } });
    const outcome = await tell(newsOf(number, 'The event has no lot of it any more'));
    expect(outcome).toEqual({ status: 'unchanged', reference: `PurchaseRequisition/${number}` });
    expect(changes()).toEqual([]);
  });

  test('is told later, with the others of the call, when the user may not change requisitions', async () => {
    const [first, second] = [await raise({ '10': {} }), await raise({ '10': {} })];
    const alone = await open({ connections: 1 });
    system.inject({ method: 'POST', path: service, status: 403, message: 'No authorization for M_BANF_EKG' });
    const given = [newsOf(first, 'The event is closed'), newsOf(second, 'The event is closed')];
    const outcomes = await alone.acknowledge?.(given, never);
    const refused = {
      status: 'retry',
      error: { type: 'auth', message: expect.stringContaining('No authorization for M_BANF_EKG') },
    };
    expect(outcomes).toMatchObject([refused, refused]);
    expect(await notesOn(second)).toEqual({});
  });

  test('is in the list of the open ones while one of its items is, wherever a page of the list ends', async () => {
    const inPages = await open({ read_page: 2 });
    const wanted = { RequestedQuantity: '5', OrderedQuantity: '0' };
    const ordered = { ...wanted, OrderedQuantity: '5' };
    const isPartlyOrdered = { ...wanted, OrderedQuantity: '4' };
    const openOnes = [
      await raise({ '10': ordered, '20': ordered, '30': ordered, '40': wanted }),
      await raise({ '10': isPartlyOrdered }),
      await raise({ '10': { ...wanted, IsDeleted: 'X' }, '20': wanted }),
    ];
    await raise({ '10': ordered });
    await raise({ '10': { ...wanted, IsDeleted: 'X' } });
    await raise({ '10': { ...wanted, IsClosed: true } });
    await raise({ '10': { ...wanted, IsPurReqnBlocked: '1' } });
    await raise({ '10': { ...wanted, ReleaseIsNotCompleted: true } });
    const listed: string[] = [];
    for await (const page of inPages.openRequisitions?.(never) ?? []) listed.push(...page);
    expect(new Set(listed)).toEqual(new Set(openOnes));
  });

  test('shows the news in the text and the language that the settings name', async () => {
    const number = await raise({ '10': {} });
    const other = await open({ requisition_text_type: 'B07', language: 'DE' });
    await writeNote(number, '10', 'Gate 3.', { Language: 'DE' });
    await writeNote(number, '10', 'Gate 4.', { DocumentText: 'B07' });
    await tell(newsOf(number, 'The event is closed'), other);
    const filter = encodeURIComponent(`PurchaseRequisition eq '${number}'`);
    const { results } = await system.ask(
      'GET',
      `${noteSet}?$filter=${filter}&$orderby=DocumentText,Language&$format=json`,
    );
    expect(results).toMatchObject([
      { DocumentText: 'B02', Language: 'DE', NoteDescription: 'Gate 3.' },
      { DocumentText: 'B07', Language: 'DE', NoteDescription: expect.stringContaining('The event is closed') },
      { DocumentText: 'B07', Language: 'EN', NoteDescription: 'Gate 4.' },
    ]);
  });
});

function newsOf(requisition: string, text: string): Acknowledgement {
  return { requisition, status: 'created', text, idempotencyKey: randomUUID() };
}

/** As a person reads it. */
function shown({ text, idempotencyKey }: Acknowledgement): string {
  return `[Sourcing bridge] ${text}\n[news ${idempotencyKey}]`;
}
