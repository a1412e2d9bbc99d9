/** Lines of the log as OTLP log records. A line has passed the log's own removal of secrets before it comes here. */
import { type LogRecord, ROOT_CONTEXT, SeverityNumber, trace } from '@opentelemetry/api';
import { readTraceparent } from '../telemetry.ts';

const severities: Readonly<Record<string, SeverityNumber>> = {
  trace: SeverityNumber.TRACE,
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
  fatal: SeverityNumber.FATAL,
};

/** Returns a function that passes a line on as a record: `msg` as its body, the other members as attributes. */
export function createLineForwarder(emit: (record: LogRecord) => void): (line: string) => void {
  return (line) => {
    let members: NonNullable<LogRecord['attributes']>;
    try {
      members = JSON.parse(line) as typeof members;
    } catch {
      // A line that the removal of secrets has cut in its middle: it is on standard error.
      return;
    }
    const { level, time, msg, trace_id: traceId, span_id: spanId, ...attributes } = members;
    const place = readTraceparent(`00-${String(traceId)}-${String(spanId)}-01`);
    emit({
      timestamp: new Date(String(time)),
      severityText: String(level),
      severityNumber: severities[String(level)] ?? SeverityNumber.UNSPECIFIED,
      body: typeof msg === 'string' ? msg : '',
      // From JSON: texts, numbers, booleans, lists and objects, as OTLP has them.
      attributes,
      ...(place && {
        context: trace.setSpanContext(ROOT_CONTEXT, {
          traceId: place.traceId,
          spanId: place.spanId,
          traceFlags: place.flags,
        }),
      }),
    });
  };
}
