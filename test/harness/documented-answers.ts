/**
 * Compares every answer of a test service with its OpenAPI documents: the operation, the status, the media type, the
 * headers and the body, down to each member. It compares the service's notifications, too. A difference is a fault of
 * the service or of the document, and fails the test that made the request.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { createApiDocuments } from '#service/openapi/api-documents.ts';
import type { ProfileName } from '#service/profile/profile.ts';
import { profileOf } from '#service/profile/profile-of.ts';

export interface SeenAnswer {
  status: number;
  headers: Headers;
  /** Parsed, if it is JSON. */
  body: unknown;
}

// biome-ignore lint/suspicious/noExplicitAny: the checker looks into documents of every shape
// oxlint-disable-next-line typescript/no-explicit-any
type Json = any;

interface Operation {
  /** `GET /api/jobs/{id}` */
  readonly name: string;
  readonly pattern: RegExp;
  readonly responses: Json;
  readonly document: Json;
  /** The JSON pointer of the responses in the document, from which the schemas' addresses are made. */
  readonly pointer: string;
}

export interface AnswerCheck {
  /** Every operation of the documents. */
  readonly operations: readonly string[];
  /** Returns the operation and the status, as `GET /api/jobs/{id} 200`. Throws an Error that names the difference. */
  check(method: string, url: string, answer: SeenAnswer): string | undefined;
  /** Returns what is wrong with a notification of the service; undefined when it is as documented. */
  faultOfNotification(headers: IncomingHttpHeaders, body: { trigger: string }): string | undefined;
}

/** The paths that the documents describe. */
const described = /^\/(api|desk|admin)(\/|$)/;
/** Statuses that any path may have, known or not. */
const anywhere = [400, 404, 405, 503];

export function createAnswerCheck(documents: Readonly<Record<string, object>>): AnswerCheck {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajvFormats.default(ajv);
  const operations = Object.entries(documents).flatMap(([name, document]) => {
    ajv.addSchema(closed(document) as object, name);
    return operationsOf(name, document);
  });
  const bodyFault = createBodyCheck(ajv);

  return {
    operations: operations.map(({ name }) => name),
    check: (method, url, answer) => {
      const path = new URL(url).pathname.replace(/(?<=.)\/$/, '');
      if (!described.test(path)) return undefined;
      const documentedMethod = method === 'HEAD' ? 'GET' : method;
      const fail = (fault: string) => {
        throw new Error(`${method} ${path} answered ${answer.status}, and the OpenAPI document disagrees: ${fault}`);
      };
      const nearest = operations.find(({ pattern }) => pattern.test(path))?.pattern.source;
      const operation = operations.find(
        ({ name, pattern }) => name.startsWith(`${documentedMethod} `) && pattern.source === nearest,
      );
      const fault = operation
        ? faultOf(operation, answer, method === 'HEAD', bodyFault)
        : faultOfUnknown(
            operations.some(({ pattern }) => pattern.test(path)),
            answer,
          );
      if (fault !== undefined) fail(fault);
      return operation && `${operation.name} ${answer.status}`;
    },
    faultOfNotification: (sent, body) => {
      const [name, document] = Object.entries(documents).find(([, each]) => 'webhooks' in each) ?? [];
      const call = (document as Json)?.webhooks[body.trigger]?.post;
      if (!call) return `the OpenAPI document knows no notification ${body.trigger}.`;
      const names: string[] = call.parameters
        .filter(({ required }: { required: boolean }) => required)
        .map(({ name }: { name: string }) => name);
      const missing = names.find((header) => sent[header.toLowerCase()] === undefined);
      if (missing !== undefined) return `the header ${missing} is missing.`;
      return bodyFault(`${name}#/webhooks/${body.trigger}/post/requestBody/content/application~1json/schema`, body);
    },
  };
}

const ofService = new Map<ProfileName, AnswerCheck>();

/** The check of the answers of a service with this profile, made when it is first used. */
export function answerCheckOfService(profile: ProfileName = 'spec'): AnswerCheck {
  const known = ofService.get(profile) ?? createAnswerCheck(createApiDocuments('/', profileOf(profile)));
  ofService.set(profile, known);
  return known;
}

function operationsOf(documentName: string, document: Json): Operation[] {
  const found = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      // A path answers alike with and without a slash at its end.
      pattern: new RegExp(
        `^${path
          .replace(/\/$/, '')
          .replace(/[.]/g, '\\$&')
          .replace(/\{\w+\}/g, '[^/]+')}$`,
      ),
      responses: operation.responses,
      document,
      pointer: `${documentName}#/paths/${escaped(path)}/${method}/responses`,
      values: path.split('{').length,
    })),
  );
  // A path with a fixed text comes before a path with a parameter at the same place.
  return found.sort((a, b) => a.values - b.values);
}

type BodyCheck = (pointer: string, body: unknown) => string | undefined;

function faultOf(operation: Operation, answer: SeenAnswer, isHead: boolean, bodyFault: BodyCheck): string | undefined {
  const { status, headers } = answer;
  const given = operation.responses[String(status)];
  // A client may also send a body to an operation that takes none.
  if (given === undefined && [413, 415].includes(status)) return faultOfProblem(answer);
  if (given === undefined)
    return `it knows the statuses ${Object.keys(operation.responses).join(', ')} of ${operation.name}.`;
  const reference: string | undefined = given.$ref;
  const response = reference === undefined ? given : at(operation.document, reference);
  const pointer =
    reference === undefined
      ? `${operation.pointer}/${status}`
      : `${operation.pointer.slice(0, operation.pointer.indexOf('#'))}${reference}`;
  for (const [name, { $ref }] of Object.entries<Json>(response.headers ?? {}))
    if (at(operation.document, $ref).required === true && headers.get(name) === null)
      return `the header ${name} is missing.`;
  if (headers.has('etag') && response.headers?.ETag === undefined) return 'an ETag should not be sent.';
  if (headers.has('location') && response.headers?.Location === undefined) return 'a Location should not be sent.';
  const { content } = response;
  if (content === undefined) return answer.body === '' ? undefined : 'there should be no body.';
  const [mediaType = ''] = Object.keys(content);
  const sent = headers.get('content-type')?.split(';')[0];
  if (sent !== mediaType) return `the media type should be ${mediaType}, not ${sent}.`;
  if (isHead) return answer.body === '' ? undefined : 'the answer to HEAD should have no body.';
  if (mediaType.includes('problem') && (answer.body as { status?: unknown }).status !== status)
    return 'the problem names another status.';
  return bodyFault(`${pointer}/content/${escaped(mediaType)}/schema`, answer.body);
}

function faultOfUnknown(pathIsKnown: boolean, answer: SeenAnswer): string | undefined {
  if (!anywhere.includes(answer.status)) return 'it knows no such operation.';
  if (answer.status === 405 && !(pathIsKnown && answer.headers.get('allow')))
    return '405 needs a known path and Allow.';
  return faultOfProblem(answer);
}

function faultOfProblem({ headers, body }: SeenAnswer): string | undefined {
  return headers.get('content-type')?.startsWith('application/problem+json') && typeof body === 'object'
    ? undefined
    : 'a refusal should be a problem detail.';
}

/** Compiles each schema once, when it is first needed. */
function createBodyCheck(ajv: Ajv2020): BodyCheck {
  const compiled = new Map<string, ValidateFunction>();
  return (pointer, body) => {
    let validate = compiled.get(pointer);
    if (!validate) compiled.set(pointer, (validate = ajv.compile({ $ref: pointer })));
    if (validate(body)) return undefined;
    return (validate.errors ?? [])
      .slice(0, 5)
      .map(({ instancePath, message, params }) => {
        const extra = (params as { additionalProperty?: string }).additionalProperty;
        return `${instancePath || 'the body'} ${message ?? 'is wrong'}${extra === undefined ? '' : ` (${extra})`}`;
      })
      .join('; ');
  };
}

/**
 * A copy in which objects allow only the listed members. Clients must accept further members, but the service sends
 * none.
 */
function closed(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(closed);
  const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, closed(inner)]));
  const lists = Object.keys((value as { properties?: object }).properties ?? {}).length > 0;
  return lists && copy['type'] === 'object' && !('additionalProperties' in copy)
    ? { ...copy, additionalProperties: false }
    : copy;
}

function at(document: Json, reference: string): Json {
  return reference
    .slice(2)
    .split('/')
    .reduce((part, key) => part[key], document);
}

function escaped(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'));
}
