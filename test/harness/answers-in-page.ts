/** Reads the page that connectors attach for a supplier's answers, as `held()` of the conformance kit shows answers. */

/** One entry for each question. */
export function answersIn(page: string): unknown[] {
  const rows = page.matchAll(/<tr id="(.*?)">(.*?)<\/tr>/gsu);
  return [...rows].map(([, id, row = '']) => {
    const [identifier, text, answer = '', comment] = [...row.matchAll(/<td>(.*?)<\/td>/gsu)].map(
      ([, cell = '']) => cell,
    );
    const value = /<span class="value">(.*?)<\/span>/su.exec(answer)?.[1];
    return {
      question: { id: plainText(id), identifier: plainText(identifier), text: plainText(text) },
      ...(value === undefined ? {} : { value: plainText(value) }),
      options: [...answer.matchAll(/<li>(.*?)<\/li>/gsu)].map(([, option]) => ({ value: plainText(option) })),
      ...(comment === '' ? {} : { comment: plainText(comment) }),
    };
  });
}

/** A text of such a page. */
export function plainText(html = ''): string {
  return html.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}
