/**
 * The plots of the simulator. Each plot is the course of one event; together they cover every row of the API document's
 * table "Feed update conditions". All randomness comes from the story's seed.
 */
import { questionsResult } from '#contract/rfi.ts';
import type { Clock } from '#platform/clock.ts';
import type { Random } from './random.ts';
import {
  asMoney,
  asTenths,
  bestAwards,
  eventName,
  lotNames,
  makeOffer,
  priceChange,
  type SimulatedOffer,
  sheetPayload,
} from './sheet.ts';
import type { SimulatorStage } from './stage.ts';

export interface Scene {
  stage: SimulatorStage;
  clock: Clock;
  random: Random;
  /** The event's number in the story. */
  number: number;
  /** The external ids of the suppliers that may be invited. */
  suppliers: readonly string[];
  lots: number;
  print: (line: string) => void;
}

type Plot = (scene: Scene) => Promise<void>;

/** The plots in the order in which a story plays them, over and over. */
export const plots: readonly Plot[] = [
  playPausedRfq,
  playRounds,
  playReopened,
  playTakenBack,
  playRfi,
  playDutchRepublished,
  playDeleted,
  playFromTemplate,
];

/** An event of the story, with its lots and the invited suppliers. */
interface Event {
  readonly id: string;
  readonly name: string;
  readonly lots: readonly string[];
  readonly invited: readonly string[];
}

async function draft(scene: Scene, what: string, members: object = {}): Promise<Event> {
  const { random, stage, print } = scene;
  const name = eventName(random, what, scene.number);
  const lots = lotNames(scene.lots);
  const invited = scene.suppliers.filter(() => random.next() < 0.7);
  if (invited.length === 0) invited.push(random.pick(scene.suppliers));
  const { created_entity: id } = await stage.runJob('CREATE_SOURCING_EVENT', {
    name,
    reference_id: `REQ-${random.whole(10_000, 99_999)}`,
    suppliers: invited.map((supplier) => ({ external_id: supplier })),
    ...sheetPayload(random, lots),
    ...members,
  });
  print(`"${name}" drafted: ${lots.length} lots, ${invited.length} suppliers invited`);
  return { id: String(id), name, lots, invited };
}

/** Sends one command, and prints the event's name followed by `text`. */
async function command(
  { stage, print }: Scene,
  event: Event,
  path: string,
  text: string,
  body?: object,
): Promise<void> {
  await stage.pause();
  await stage.desk(event.id, 'POST', `/${path}`, body);
  print(`"${event.name}"${text}`);
}

async function bid(scene: Scene, event: Event, { supplier, cents }: SimulatedOffer): Promise<void> {
  const lots = [...cents].map(([lot, price]) => ({
    lot,
    values: {
      'Unit Price': asMoney(price),
      [priceChange]: asTenths(scene.random.whole(-150, 150)),
      Remark: 'DDP, Incoterms 2030',
    },
  }));
  const global = { 'Payment Terms': '30 days net' };
  await command(scene, event, 'bids', `: ${supplier} bids on ${lots.length} lots`, { supplier, lots, global });
}

async function bidAll(scene: Scene, event: Event): Promise<SimulatedOffer[]> {
  const offers = event.invited.map((supplier) => makeOffer(scene.random, supplier, event.lots));
  for (const offer of offers) await bid(scene, event, offer);
  return offers;
}

async function award(
  scene: Scene,
  event: Event,
  offers: readonly SimulatedOffer[],
  scenario = 'Best price',
): Promise<void> {
  const { stage, random, print } = scene;
  await stage.pause();
  const awards = bestAwards(random, event.lots, offers);
  await stage.desk(event.id, 'PUT', `/scenarios/${encodeURIComponent(scenario)}`, { awards });
  await stage.desk(event.id, 'POST', '/award', { scenario });
  const winners = new Set(awards.map(({ supplier }) => supplier)).size;
  print(`"${event.name}": ${new Set(awards.map(({ lot }) => lot)).size} lots go to ${winners} suppliers`);
}

const publish = (scene: Scene, event: Event) => command(scene, event, 'publish', ' published');
const close = (scene: Scene, event: Event) => command(scene, event, 'close', ' closed');
const reopen = (scene: Scene, event: Event) => command(scene, event, 'reopen', ' reopened');

/** All invited suppliers bid, the best bids are awarded, and the event is closed. */
async function finish(scene: Scene, event: Event): Promise<SimulatedOffer[]> {
  const offers = await bidAll(scene, event);
  await award(scene, event, offers);
  await close(scene, event);
  return offers;
}

/** An RFQ that was played to its end. */
async function closedRfq(scene: Scene): Promise<{ event: Event; offers: SimulatedOffer[] }> {
  const event = await draft(scene, 'RFQ');
  await publish(scene, event);
  return { event, offers: await finish(scene, event) };
}

async function playPausedRfq(scene: Scene): Promise<void> {
  const event = await draft(scene, 'RFQ');
  await publish(scene, event);
  const offers = await bidAll(scene, event);
  await command(scene, event, 'pause', ' paused');
  await command(scene, event, 'resume', ' resumed');
  await award(scene, event, offers);
  await close(scene, event);
}

/** Two rounds. Between them the buyer corrects a bid; the second round is reopened. */
async function playRounds(scene: Scene): Promise<void> {
  const { stage, clock, print } = scene;
  const event = await draft(scene, 'English auction', { event_type: 'ENGLISH' });
  await publish(scene, event);
  const offers = await bidAll(scene, event);
  await command(scene, event, 'rounds/1/close', ' has ended its first round');
  const [first] = offers;
  const [lot] = first?.cents.keys() ?? [];
  if (first && lot !== undefined) {
    first.cents.set(lot, 399);
    await stage.desk(event.id, 'PATCH', '/bids', {
      supplier: first.supplier,
      lots: [{ lot, values: { 'Unit Price': asMoney(399) } }],
    });
    print(`"${event.name}": the buyer corrects ${first.supplier}'s price for ${lot}`);
  }
  const inDays = (days: number) => new Date(clock.nowMs() + days * 86_400_000).toISOString();
  await command(scene, event, 'rounds', ' begins a second round', { ends: inDays(1) });
  await command(scene, event, 'rounds/2/extend', ' runs longer', { ends: inDays(2) });
  for (const offer of offers) {
    for (const [name, cents] of offer.cents) offer.cents.set(name, Math.max(1, Math.round(cents * 0.97)));
    await bid(scene, event, offer);
  }
  await command(scene, event, 'rounds/2/close', ' has ended its second round');
  await command(scene, event, 'rounds/2/reopen', ' opens its second round once more');
  await award(scene, event, offers);
  await close(scene, event);
}

/** Reopened after the award: one supplier withdraws from a lot, another bids less, and the lots are awarded again. */
async function playReopened(scene: Scene): Promise<void> {
  const { event, offers } = await closedRfq(scene);
  await reopen(scene, event);
  const [leaving, cheaper] = [offers[0], offers.at(-1)];
  const [lot] = leaving?.cents.keys() ?? [];
  if (leaving && lot !== undefined) {
    leaving.cents.delete(lot);
    await command(scene, event, 'bids/withdraw', `: ${leaving.supplier} withdraws from ${lot}`, {
      supplier: leaving.supplier,
      lots: [lot],
    });
  }
  const [better] = cheaper?.cents.keys() ?? [];
  if (cheaper && better !== undefined) {
    cheaper.cents.set(better, 350);
    await bid(scene, event, { supplier: cheaper.supplier, cents: new Map([[better, 350]]) });
  }
  await award(scene, event, offers, 'After the reopening');
  await close(scene, event);
}

async function playTakenBack(scene: Scene): Promise<void> {
  const { event } = await closedRfq(scene);
  await reopen(scene, event);
  await command(scene, event, 'award', "'s award is taken back", { scenario: null });
  await close(scene, event);
}

/**
 * Questions of several types are answered, also with files. A question is edited, and a supplier removes an attachment.
 */
async function playRfi(scene: Scene): Promise<void> {
  const { stage, print, random } = scene;
  const event = await draft(scene, 'RFI');
  const policy = await stage.upload('code-of-conduct.txt', 'Suppliers keep to this code.\n');
  const asked = [
    {
      identifier: '1',
      question_text: 'Are you certified to ISO 9001?',
      question_type: 'EVENT_GATING',
      input_type: 'SINGLE_CHOICE',
      options: [
        { value: 'Yes', satisfies_gating: true },
        { value: 'In progress', satisfies_gating: true },
        { value: 'No', satisfies_gating: false },
      ],
      attachment_file_uuids: [policy],
    },
    { identifier: '2', question_text: 'How many people do you employ?', input_type: 'NUMBER', precision: 0 },
    { identifier: '3', question_text: 'Please attach your certificate.', input_type: 'FILE', allow_comments: true },
  ];
  const put = async (questions: readonly object[]) =>
    questionsResult.parse(await stage.desk(event.id, 'PUT', '/questions', questions)).map(({ id }) => id);
  const ids = await put(asked);
  await command(scene, event, 'publish', ' published with an RFI');
  const files = new Map<string, string>();
  for (const supplier of event.invited) {
    await stage.pause();
    const certificate = await stage.upload(`certificate-${supplier}.txt`, `Certificate of ${supplier}\n`);
    files.set(supplier, certificate);
    await stage.desk(event.id, 'POST', '/answers', {
      supplier,
      answers: [
        { question_uuid: ids[0], selected_options: [random.pick(['Yes', 'In progress', 'No'])] },
        { question_uuid: ids[1], value: String(random.whole(5, 5_000)) },
        { question_uuid: ids[2], document_file_uuids: [certificate], comment: 'Valid until 2031' },
      ],
    });
    print(`"${event.name}": ${supplier} answers ${asked.length} questions`);
  }
  await stage.pause();
  await put(
    asked.map((question, index) => ({
      ...question,
      uuid: ids[index],
      ...(index === 1 ? { question_text: 'How many people do you employ in Europe?' } : {}),
    })),
  );
  print(`"${event.name}": the buyer words a question anew`);
  await stage.runJob('GENERATE_FILE_DOWNLOAD_LINKS', { file_uuids: [...files.values()] });
  const [supplier] = event.invited;
  await stage.desk(
    event.id,
    'DELETE',
    `/answers/${encodeURIComponent(String(supplier))}/${ids[2]}/files/${files.get(String(supplier))}`,
  );
  print(`"${event.name}": ${supplier} takes its attachment back`);
  await finish(scene, event);
}

/** Taken back to draft, changed by a job, and published again; then suppliers ask prices by volume. */
async function playDutchRepublished(scene: Scene): Promise<void> {
  const { stage, random, print } = scene;
  const event = await draft(scene, 'Dutch auction', { event_type: 'DUTCH' });
  await publish(scene, event);
  await command(scene, event, 'unpublish', ' taken back to draft');
  await stage.runJob('UPDATE_SOURCING_EVENT', {
    sourcing_event: event.id,
    description: 'Delivery in four parts',
    category: 'Direct materials',
  });
  print(`"${event.name}" changed`);
  await command(scene, event, 'publish', ' published again');
  const offers = event.invited.map((supplier) => makeOffer(random, supplier, event.lots));
  for (const { supplier, cents } of offers) {
    const lots = [...cents].map(([lot, price]) => ({
      lot,
      offers: [
        { value: asMoney(price), volume: String(random.whole(10, 100)) },
        { value: asMoney(price + random.whole(1, 200)), volume: String(random.whole(101, 500)) },
      ],
    }));
    await command(scene, event, 'bids', `: ${supplier} asks for ${lots.length} lots`, { supplier, lots });
  }
  await award(scene, event, offers);
  await close(scene, event);
}

/** Awarded, and then deleted: its awards are void. */
async function playDeleted(scene: Scene): Promise<void> {
  const { event } = await closedRfq(scene);
  await command(scene, event, 'delete', ' deleted');
}

/** A sourcing request with a drawing, and an event for it from a template. */
async function playFromTemplate(scene: Scene): Promise<void> {
  const { stage, random, print } = scene;
  const lots = lotNames(scene.lots);
  const name = eventName(random, 'Request', scene.number);
  const { created_entity: request } = await stage.runJob('CREATE_SOURCING_REQUEST', {
    name,
    reference_id: `PR-${random.whole(10_000, 99_999)}`,
    requested_by: 'Maintenance',
    items: lots.map((lot) => ({ name: lot, quantity: String(random.whole(1, 500)), unit: 'pcs' })),
  });
  const content = Buffer.from(`Drawing for ${name}\n`).toString('base64');
  const files = [{ file_name: 'drawing.txt', content_type: 'text/plain', content }];
  await stage.runJob('ATTACH_FILES_TO_SOURCING_REQUEST', { sourcing_request: request, files });
  print(`"${name}" requested, with a drawing`);
  const { created_entity: template } = await stage.runJob('CREATE_SOURCING_EVENT', {
    name: `Template of ${name}`,
    settings: { is_template: true },
    ...sheetPayload(random, lots),
  });
  const rfq = `RFQ for ${name}`;
  const invited = scene.suppliers.slice(0, 3);
  const made = await stage.runJob('CREATE_SOURCING_EVENT_FROM_TEMPLATE', {
    template,
    name: rfq,
    suppliers: invited.map((supplier) => ({ external_id: supplier })),
    sourcing_requests: [request],
  });
  const event = { id: String(made.created_entity), name: rfq, lots, invited };
  await stage.runJob('ATTACH_FILES_TO_SOURCING_EVENT', { sourcing_event: event.id, files });
  print(`"${event.name}" drafted from a template`);
  await publish(scene, event);
  await finish(scene, event);
}
