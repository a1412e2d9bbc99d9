/** One small chart of samples, with its newest or summed figure as text, so that nobody needs the picture. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { ChartsAnswer } from '#console/api/read-charts.ts';
import { numberText } from '../state/numbers.ts';
import { zone } from '../state/times.ts';

const heightPx = 96;

export function Chart({
  title,
  unit,
  samples,
  of,
  kind,
  total,
  tone = 'accent',
}: {
  title: string;
  unit: string;
  samples: ChartsAnswer;
  /** The value of the step that begins then; null: no sample. */
  of: (at: string) => number | null;
  kind: 'bars' | 'line';
  total: 'sum' | 'last';
  tone?: 'accent' | 'bad';
}) {
  const place = useRef<HTMLDivElement>(null);
  const { xs, ys } = seriesOf(samples, of);
  const known = ys.filter((value) => value !== null);
  const figure = total === 'sum' ? known.reduce((sum, value) => sum + value, 0) : known.at(-1);
  const text = figure === undefined ? 'no sample yet' : `${numberText(Math.round(figure))}${unit}`;
  const shown = JSON.stringify([ys, xs[0], samples.range, zone.value]);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const draw = () => plot(box, { xs, ys, kind, tone, utc: zone.value === 'utc', days: samples.range === 'week' });
    let chart = draw();
    const again = () => {
      chart.destroy();
      chart = draw();
    };
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', again);
    const sizes = new ResizeObserver(() => chart.setSize({ width: box.clientWidth, height: heightPx }));
    sizes.observe(box);
    return () => {
      dark.removeEventListener('change', again);
      sizes.disconnect();
      chart.destroy();
    };
  }, [shown]);
  return (
    <figure class="chart">
      <figcaption>
        {title} <strong>{text}</strong>
      </figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
    </figure>
  );
}

function seriesOf({ from, to, stepSeconds }: ChartsAnswer, of: (at: string) => number | null) {
  const xs: number[] = [];
  const ys: (number | null)[] = [];
  for (let seconds = Date.parse(from) / 1000; seconds <= Date.parse(to) / 1000; seconds += stepSeconds) {
    xs.push(seconds);
    ys.push(of(new Date(seconds * 1000).toISOString().replace('.000Z', '.000000Z')));
  }
  return { xs, ys };
}

function plot(
  box: HTMLElement,
  {
    xs,
    ys,
    kind,
    tone,
    utc,
    days,
  }: { xs: number[]; ys: (number | null)[]; kind: 'bars' | 'line'; tone: string; utc: boolean; days: boolean },
): uPlot {
  const style = getComputedStyle(box);
  const color = (name: string) => style.getPropertyValue(`--plot-${name}`).trim();
  const axis = { stroke: color('text'), font: '11px system-ui, sans-serif', ticks: { show: false } };
  const bars = uPlot.paths.bars?.({ size: [0.7, 12], radius: 0.2 });
  const zoned = new Intl.DateTimeFormat('sv-SE', {
    ...(days ? { month: '2-digit', day: '2-digit' } : { hour: '2-digit', minute: '2-digit' }),
    ...(utc ? { timeZone: 'UTC' } : {}),
  });
  const timeLabels = (_plot: uPlot, splits: number[]) =>
    splits.map((seconds) => zoned.format(new Date(seconds * 1000)));
  return new uPlot(
    {
      width: Math.max(120, box.clientWidth),
      height: heightPx,
      padding: [6, 20, 0, 0],
      cursor: { show: false },
      legend: { show: false },
      ...(utc && { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') }),
      scales: { y: { range: (_plot, _low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] } },
      axes: [
        { ...axis, grid: { show: false }, size: 20, space: 70, values: timeLabels },
        { ...axis, grid: { stroke: color('grid'), width: 1 }, size: 34, space: 28 },
      ],
      series: [
        {},
        {
          stroke: color(tone),
          fill: kind === 'bars' ? color(tone) : color(`${tone}-soft`),
          width: kind === 'bars' ? 0 : 1.5,
          points: { show: ys.filter((value) => value !== null).length < 3, size: 4 },
          ...(kind === 'bars' && bars ? { paths: bars } : {}),
        },
      ],
    },
    [xs, ys],
    box,
  );
}
