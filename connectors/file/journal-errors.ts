/** What a caller of the journal has to know about other processes that use it at the same time. */
import { TransientError, UnknownOutcome } from 'sourcing-bridge/connector';

/** Another process has taken the number, or has merged the files that were to be read: nothing was done. */
export class Overtaken extends TransientError {}

/**
 * A record was added but has no file of its own: either its number had been taken and merged already, and the record
 * does not count, or another process has merged the record since.
 */
export class MergedMeanwhile extends UnknownOutcome {}
