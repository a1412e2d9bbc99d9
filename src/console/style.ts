/** The console's style sheet, for light and dark, wide and narrow screens. */
export const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; --line: #8883; --soft: #8881;
  --good: #1a7f4b; --busy: #1f5fbf; --bad: #b3261e; }
body { max-width: 84rem; margin: 2rem auto; padding: 0 1rem; }
header { display: flex; align-items: center; gap: 1rem; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
strong { padding: .15rem .8rem; border-radius: 1rem; color: #fff; font-size: .9rem; }
strong.good { background: var(--good); } strong.busy { background: var(--busy); } strong.bad { background: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; margin: 1.5rem 0 0; }
dl div { padding: .7rem 1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--soft); }
dt { font-size: .85rem; opacity: .75; }
dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
dd.bad { color: light-dark(var(--bad), #f2938c); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; }
th { font-weight: 600; font-size: .85rem; background: var(--soft); }
th, td { text-align: left; vertical-align: top; padding: .45rem .8rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; }
.none { opacity: .6; }
.key { display: inline-block; white-space: normal; min-width: 19rem; overflow-wrap: anywhere; }
.sentence { display: inline-block; white-space: normal; min-width: 14rem; max-width: 32rem; overflow-wrap: anywhere; }
.trouble { color: light-dark(var(--bad), #f2938c); }
footer { margin: 2rem 0; font-size: .85rem; opacity: .75; }
@media (max-width: 44rem) {
  body { margin: 1rem auto; }
  dl { grid-template-columns: 1fr 1fr; gap: .5rem; }
  thead { display: none; }
  tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  tr:last-child { border-bottom: 0; }
  td, td.number { display: grid; grid-template-columns: 8.5rem minmax(0, 1fr); gap: .6rem; text-align: left;
    padding: .1rem .8rem; border: 0; white-space: normal; overflow-wrap: anywhere; }
  td::before { content: attr(data-name); font-size: .85rem; opacity: .75; }
  .key, .sentence { min-width: 0; }
}`;
