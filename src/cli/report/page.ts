import { type ReplayRow, SIMULATED } from '../commands/replay-rows.ts'
import { bars, plot, escapeHtml, type Series } from './plot.ts'
export type ReportSource = 'replay' | 'load'

export interface Report {
  readonly title: string
  readonly rows: readonly ReplayRow[]
  readonly series: readonly Series[]
  /** Source of the data. Default: a replay. */
  readonly from?: ReportSource
}

/** Colours that colour-blind readers can distinguish (Okabe and Ito), in order of position. */
const COLOURS = [
  '#0072b2',
  '#d55e00',
  '#009e73',
  '#cc79a7',
  '#e69f00',
  '#56b4e9',
  '#7f7f7f',
  '#bcbd22',
  '#8c564b',
  '#17becf',
  '#9467bd',
  '#e377c2',
  '#393b79',
  '#637939',
  '#843c39',
  '#3182bd',
]

const STYLE = `
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--line:#ddd;--soft:#f5f5f5}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#16181c;--line:#3a3d44;--soft:#1f2228}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1180px;margin:24px auto;padding:0 16px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:4px 8px;text-align:right;border-bottom:1px solid var(--line)}th{vertical-align:bottom}th:first-child,td:first-child{text-align:left}
tr:hover{background:var(--soft)}.scroll{overflow-x:auto}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:12px}
svg{width:100%;background:var(--paper);border:1px solid var(--line);border-radius:6px}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg .title{font-weight:600;font-size:13px}svg .grid{stroke:var(--line)}
.key span{display:inline-block;margin:0 14px 4px 0;white-space:nowrap}.key i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}
`

/** Renders a report as one self-contained HTML page without scripts, fonts or images from elsewhere. */
export function reportPage({ title, rows, series, from = 'replay' }: Report): string {
  const loads = [...new Set(series.map(({ load }) => load))]
  const sections = loads.map((load) =>
    section({
      load,
      from,
      rows: rows.filter((row) => row.load === load),
      series: series.filter((one) => one.load === load),
    }),
  )
  return (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" ' +
    `content="width=device-width,initial-scale=1"><title>${escapeHtml(title)} · Firstlight ` +
    `${from}</title><style>${STYLE}</style><h1>${escapeHtml(title)}</h1><p>${ABOUT[from]} Times to first token ` +
    `are what clients see; lower is better.</p>${sections.join('')}</html>\n`
  )
}

const ABOUT: Readonly<Record<ReportSource, string>> = {
  replay: 'Simulated in virtual time by <code>firstlight replay</code>.',
  load: 'Measured at a running gateway by <code>firstlight load</code>.',
}

interface Section {
  readonly load: number | null
  readonly from: ReportSource
  readonly rows: readonly ReplayRow[]
  readonly series: readonly Series[]
}

function section({ load, from, rows, series }: Section): string {
  const colours = new Map(
    [...new Set(series.map(({ policy }) => policy))].map((policy, at) => [
      policy,
      COLOURS[at] ?? `hsl(${(at * 137.5) % 360} 55% 45%)`,
    ]),
  )
  const key = [...colours].map(
    ([policy, colour]) => `<span><i style="background:${colour}"></i>${escapeHtml(policy)}</span>`,
  )
  const heading = load === null ? '' : `<h2>Load ${load}</h2>`
  return (
    `${heading}${tableOf(rows, from)}<p class="key">${key.join('')}</p><div ` +
    `class="plots">${plots(series, (policy) => colours.get(policy)!).join('')}</div>`
  )
}

function plots(series: readonly Series[], colourOf: (policy: string) => string): string[] {
  const styled = series.map((one) => ({ one, label: one.policy, colour: colourOf(one.policy) }))
  const cdf = styled.map(({ one, ...style }) => ({
    ...style,
    points: one.ttftQuantiles
      .map((seconds, at) => [seconds, at / (one.ttftQuantiles.length - 1)] as const)
      .filter(([seconds]) => seconds > 0),
  }))
  const time = styled.map(({ one, ...style }) => ({
    ...style,
    points: one.ttftOverTime.flatMap((seconds, at) =>
      seconds === null ? [] : [[((at + 0.5) / one.ttftOverTime.length) * one.spanS, seconds] as const],
    ),
  }))
  const predicted = styled
    .filter(({ one }) => one.policy === 'predicted' && one.predictions.length > 0)
    .map(({ one, ...style }) => ({
      ...style,
      dots: true,
      points: one.predictions.filter(([left, right]) => left > 0 && right > 0),
    }))
  return [
    plot(cdf, { title: 'Time to first token, share of requests', x: 'seconds', y: 'share', logX: true }),
    plot(time, { title: 'Time to first token over the run', x: 'seconds of the run', y: 'seconds' }),
    bars(
      styled.map(({ one, ...style }) => ({ ...style, values: one.workByEngine })),
      { title: 'Prompt tokens computed, by engine', x: 'engines', y: 'tokens' },
    ),
    bars(
      styled.map(({ one, ...style }) => ({ ...style, values: one.hitByEngine })),
      { title: 'Share of prompt tokens cached, by engine', x: 'engines', y: 'share' },
    ),
    ...(predicted.length === 0
      ? []
      : [
          plot(predicted, {
            title: 'Predicted against actual time to first token',
            x: 'predicted, seconds',
            y: 'actual, seconds',
            logX: true,
            logY: true,
          }),
        ]),
  ]
}

/**
 * Renders the table: policies ordered by TTFT; for a load run, the total and then each engine, without simulated
 * columns.
 */
function tableOf(rows: readonly ReplayRow[], from: ReportSource): string {
  const left = new Set(['trace', 'load', 'seeds', 'refused', ...(from === 'load' ? SIMULATED : [])])
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => !left.has(name))
  const sorted = from === 'load' ? rows : [...rows].sort((one, other) => one.ttft_mean_ms - other.ttft_mean_ms)
  const body = sorted.map((row) => `<tr>${columns.map((name) => `<td>${cell(row[name])}</td>`).join('')}</tr>`)
  return `<div class="scroll"><table><tr>${columns.map((name) => `<th>${from === 'load' && name === 'policy' ? 'engine' : escapeHtml(name).replaceAll('_', '_<wbr>')}</th>`).join('')}</tr>${body.join('')}</table></div>`
}

function cell(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  if (typeof value === 'string') return escapeHtml(value)
  return Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))
}
