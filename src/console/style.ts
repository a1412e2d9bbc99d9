/** How the console looks, on light and dark screens, on wide and narrow ones. */
export const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; --line: #8883; --soft: #8881;
  --good: #1a7f4b; --busy: #1f5fbf; --bad: #b3261e; }
body { max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
header { display: flex; align-items: center; gap: 1rem; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
strong { padding: .15rem .8rem; border-radius: 1rem; color: #fff; font-size: .9rem; }
strong.good { background: var(--good); } strong.busy { background: var(--busy); } strong.bad { background: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .8rem; margin: 1.5rem 0 0; }
dl div { padding: .7rem 1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--soft); }
dt { font-size: .85rem; opacity: .75; }
dd { margin: 0; font-size: 1.6rem; font-variant-numeric: tabular-nums; }
dd.bad { color: light-dark(var(--bad), #f2938c); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; }
th { font-weight: 600; font-size: .85rem; background: var(--soft); }
th, td { text-align: left; vertical-align: top; padding: .45rem 1rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums; }
td:has(wbr) { white-space: normal; min-width: 19rem; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; }
.none { opacity: .6; }
.trouble { display: inline-block; min-width: 16rem; max-width: 30rem; white-space: normal; overflow-wrap: anywhere;
  color: light-dark(var(--bad), #f2938c); }
footer { margin: 2rem 0; font-size: .85rem; opacity: .75; }`;
