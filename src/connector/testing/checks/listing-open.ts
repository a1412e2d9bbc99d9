/** The list of open requisitions, by which the bridge finds those that were deleted: it has all of them, and no other. */
import type { Check } from '#connector/testing/check.ts';
import { failCheck, needCall, needMember } from '#connector/testing/finding.ts';

const never = new AbortController().signal;
const lookAt = 'openRequisitions(): all pages, and the same condition as `open` of what read() returns';

export const openRequisitions: Check = {
  name: 'open requisitions',
  guarantee: 'openRequisitions() lists each requisition that read() returns as open, and none that was deleted since',
  async run(stage) {
    const session = await stage.open();
    const { target, capabilities } = stage;
    const list = needCall(session.openRequisitions, capabilities.listsOpen === true, 'openRequisitions', 'listsOpen');
    const changeRecord = needMember(target, 'changeRecord', 'makes a requisition');
    const deleteRequisition = needMember(target, 'deleteRequisition', 'deletes a requisition');
    const made = [];
    // More than fit into a page of most lists.
    for (let n = 1; n <= 7; n += 1) made.push(await changeRecord('requisition', `Mosiądz ${n}`, false));
    const open = new Map<string, boolean>();
    let last: string | undefined;
    // The bridge lists after each read.
    const read = async () => {
      for await (const { records, checkpoint } of session.read('requisition', last, never)) {
        for (const record of records) open.set(record.reference_id, record.open);
        last = checkpoint;
      }
    };
    await read();
    const expectList = async (wanted: ReadonlySet<string>, when: string) => {
      const listed = await list();
      const missing = [...wanted].filter((number) => !listed.includes(number));
      const foreign = listed.filter((number) => !wanted.has(number));
      if (missing.length > 0 || foreign.length > 0)
        failCheck({
          expected: `${when}, the list has the ${wanted.size} requisitions that are open`,
          seen: `missing: ${missing.join(', ') || 'none'}; not open: ${foreign.join(', ') || 'none'}`,
          lookAt,
        });
    };
    const wanted = new Set([...open].filter(([, isOpen]) => isOpen).map(([number]) => number));
    for (const { reference_id } of made)
      if (!wanted.has(reference_id))
        failCheck({ expected: `read() returns ${reference_id} as open`, seen: 'it does not', lookAt });
    await expectList(wanted, 'after a read');
    for (const { reference_id } of made.slice(2, 4)) {
      await deleteRequisition(reference_id);
      wanted.delete(reference_id);
    }
    await read();
    await expectList(wanted, 'after two were deleted');
  },
};
