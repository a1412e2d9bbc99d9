/** The errors of Odoo 19 as `/json/2` answers them: a status, a name, a message, and a stack trace in `debug`. */
export class OdooFault extends Error {
  readonly status: number;
  override readonly name: string;

  constructor(status: number, name: string, message: string) {
    super(message);
    this.status = status;
    this.name = name;
  }
}

export const userError = (message: string) => new OdooFault(422, 'odoo.exceptions.UserError', message);
export const validationError = (message: string) =>
  new OdooFault(422, 'odoo.exceptions.ValidationError', `The operation cannot be completed: ${message}`);
export const accessError = (message: string) => new OdooFault(403, 'odoo.exceptions.AccessError', message);
export const missingError = (model: string, id: number) =>
  new OdooFault(
    404,
    'odoo.exceptions.MissingError',
    `Record does not exist or has been deleted.\n(Record: ${model}(${id},), User: 5)`,
  );
export const notFound = (message: string) => new OdooFault(404, 'werkzeug.exceptions.NotFound', message);
/** What the programmer of the call got wrong; Odoo answers 500, although it is final. */
export const valueError = (message: string) => new OdooFault(500, 'builtins.ValueError', message);

/** The body of an error. `debug` holds what must reach neither a log nor a dead letter. */
export function bodyOfFault({ name, message, status }: OdooFault): object {
  const debug = `Traceback (most recent call last):\n  File "odoo/http.py", line 2104, in _transactioning\n${name}: ${message}\n`;
  const isOfWerkzeug = name.startsWith('werkzeug.');
  return { name, message, arguments: isOfWerkzeug ? [message, status] : [message], context: {}, debug };
}
