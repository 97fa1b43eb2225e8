import { columnsOf, loadColumns } from './replay-table.ts'
import type { Slo } from '../replay/statistics.ts'
import { COLUMNS, figureText, legendOf } from './columns.ts'
import { escapeHtml } from './escape.ts'
import { bars, plot } from './plot.ts'
import type { Provenance } from './provenance.ts'
import type { ReplayRow } from './replay-row.ts'
import type { Series } from './series.ts'

type ReportSource = 'replay' | 'load'

interface Report {
  readonly rows: readonly ReplayRow[]
  readonly series: readonly Series[]
  readonly provenance: Provenance
  /** Winner, overload and other findings, one paragraph each. */
  readonly notes: readonly string[]
  /** Limits of goodput. */
  readonly slo: Slo
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
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1180px;
  margin:24px auto;padding:0 16px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:4px 8px;text-align:right;border-bottom:1px solid var(--line)}
th{vertical-align:bottom}
th:first-child,td:first-child{text-align:left}
tr:hover{background:var(--soft)}.scroll{overflow-x:auto}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:12px}
svg{width:100%;background:var(--paper);border:1px solid var(--line);border-radius:6px}
td.best{font-weight:700}
.about{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0 0 16px}
.about dt{opacity:.7}
.about dd{margin:0;overflow-wrap:anywhere}
.note{border-left:3px solid #d55e00;padding:2px 10px;margin:8px 0}
.legend{opacity:.8;font-size:12px;columns:2;margin:8px 0}
.legend p{margin:0 0 2px}
label{cursor:pointer}.key label:has(input:not(:checked)){opacity:.45}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}
svg .title{font-weight:600;font-size:13px}
svg .grid{stroke:var(--line)}
.key label{display:inline-block;margin:0 14px 4px 0;white-space:nowrap}
.key i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:5px;vertical-align:-1px}
`

/** Renders a report as one self-contained HTML page without scripts, fonts or images from elsewhere. */
export function reportPage({ rows, series, provenance, notes, slo, from = 'replay' }: Report): string {
  const loads = [...new Set(series.map(({ load }) => load))]
  const sections = loads.map((load, at) =>
    section({
      load,
      at,
      from,
      rows: rows.filter((row) => row.load === load),
      series: series.filter((one) => one.load === load),
    }),
  )
  const title = escapeHtml(provenance.trace)
  return (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" ' +
    `content="width=device-width,initial-scale=1"><title>${title} · Firstlight ` +
    `${from}</title><style>${STYLE}</style><h1>${title}</h1>${aboutOf(provenance, from)}` +
    `${paragraphs(notes, ' class="note"')}${sections.join('')}` +
    `<h2>Columns</h2><div class="legend">${paragraphs(legendOf(keysOf(rows, from), slo))}</div></html>\n`
  )
}

const paragraphs = (lines: readonly string[], attributes = ''): string =>
  lines.map((line) => `<p${attributes}>${escapeHtml(line)}</p>`).join('')

/** Renders what a reader needs to cite or repeat the report. */
function aboutOf({ command, version, trace, sha256, profile, date }: Provenance, from: ReportSource): string {
  const facts: readonly (readonly [string, string])[] = [
    ['command', command],
    ['Firstlight', version],
    ['trace', sha256 === null ? `${trace} (generated)` : `${trace}, SHA-256 ${sha256}`],
    ['profile', profile],
    ['date', date],
    ['method', METHOD[from]],
  ]
  const items = facts.map(([name, value]) => `<dt>${name}</dt><dd>${escapeHtml(value)}</dd>`)
  return `<dl class="about">${items.join('')}</dl>`
}

const METHOD: Readonly<Record<ReportSource, string>> = {
  replay: 'simulated in virtual time by firstlight replay; TTFT is what clients see',
  load: 'measured at a running gateway by firstlight load; TTFT is what clients see',
}

interface Section {
  readonly load: number | null
  /** Index of the section, for ids. */
  readonly at: number
  readonly from: ReportSource
  readonly rows: readonly ReplayRow[]
  readonly series: readonly Series[]
}

function section({ load, at, from, rows, series }: Section): string {
  const names = [...new Set(series.map(({ policy }) => policy))]
  const styles = new Map(
    names.map((policy, place) => [
      policy,
      {
        colour: COLOURS[place] ?? `hsl(${(place * 137.5) % 360} 55% 45%)`,
        id: `s${at}p${place}`,
      },
    ]),
  )
  const key = [...styles].map(
    ([policy, { colour, id }]) =>
      `<label><input type="checkbox" id="${id}" checked><i ` +
      `style="background:${colour}"></i>${escapeHtml(policy)}</label>`,
  )
  // Without a script: an unchecked box hides the lines of its policy.
  const toggles = [...styles.values()].map(({ id }) => `:root:has(#${id}:not(:checked)) .${id}{display:none}`)
  const heading = load === null ? '' : `<h2>Load ${load}</h2>`
  return (
    `${heading}${tableOf(rows, from)}<style>${toggles.join('')}</style><p class="key">${key.join('')}</p><div ` +
    `class="plots">${plots(series, (policy) => styles.get(policy)!).join('')}</div>`
  )
}

type Style = { readonly colour: string; readonly id: string }

function plots(series: readonly Series[], styleOf: (policy: string) => Style): string[] {
  const styled = series.map((one) => ({ one, label: one.policy, ...styleOf(one.policy) }))
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

const keysOf = (rows: readonly ReplayRow[], from: ReportSource): string[] =>
  from === 'load' ? loadColumns() : columnsOf(rows)

/** Renders the table: policies ordered by TTFT; for a load run, the total and then each engine. */
function tableOf(rows: readonly ReplayRow[], from: ReportSource): string {
  const keys = keysOf(rows, from)
  const sorted = from === 'load' ? rows : rows.toSorted((one, other) => one.ttft_mean_ms - other.ttft_mean_ms)
  const best = new Map(from === 'load' ? [] : keys.map((key) => [key, bestOf(rows, key)]))
  const body = sorted.map((row) => {
    const cells = keys.map((key) => {
      const isBest = best.get(key) !== undefined && best.get(key) === row[key]
      return `<td${isBest ? ' class="best"' : ''}>${escapeHtml(figureText(key, row[key]))}</td>`
    })
    return `<tr>${cells.join('')}</tr>`
  })
  const head = keys.map((key) => {
    const text = from === 'load' && key === 'policy' ? 'engine' : (COLUMNS[key]?.head ?? key)
    return `<th title="${escapeHtml(COLUMNS[key]?.meaning ?? '')}">${escapeHtml(text).replaceAll('_', '_<wbr>')}</th>`
  })
  return `<div class="scroll"><table><tr>${head.join('')}</tr>${body.join('')}</table></div>`
}

/** Best value of a column over all rows. undefined: the column has no better value, or a single row. */
function bestOf(rows: readonly ReplayRow[], key: string): number | undefined {
  const { better } = COLUMNS[key] ?? {}
  const values = rows.map((row) => row[key]).filter((value) => typeof value === 'number')
  if (better === undefined || values.length < 2) return undefined
  return better === 'low' ? Math.min(...values) : Math.max(...values)
}
