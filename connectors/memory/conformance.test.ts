/** Runs the conformance kit. A new connector keeps this test as it is, and changes the target. */
import { conformance } from 'sourcing-bridge/connector/testing';
import { test } from 'vitest';
import { credentials, memoryTarget } from './conformance-target.ts';
import { startMemoryErp } from './memory-erp.ts';

const erp = await startMemoryErp(credentials);

for (const { title, run } of conformance(memoryTarget(erp))) test(title, run);
