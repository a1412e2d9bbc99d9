/** Proves the connector against its ERP. A connector's own test stays like this one: the target says what differs. */
import { conformance } from 'sourcing-bridge/connector/testing';
import { test } from 'vitest';
import { credentials, memoryTarget } from './conformance-target.ts';
import { startMemoryErp } from './memory-erp.ts';

const erp = await startMemoryErp(credentials);

for (const { title, run } of conformance(memoryTarget(erp))) test(title, run);
