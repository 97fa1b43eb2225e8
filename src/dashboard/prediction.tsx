import type { ComponentChildren } from 'preact'
import { cachedTokensOf } from './sentence.ts'
import { count, ms, percent, plural, quantile } from './format.ts'
import { ttftOf } from './trend.ts'
import type { Decision } from './wire.ts'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

export interface ChartProps {
  /** Seconds since the epoch, ascending. */
  readonly x: number[]
  readonly actual: number[]
  readonly predicted: number[]
  readonly format: (value: number) => string
}

const HEIGHT = 200
const AXIS_WIDTH = 64
const AXIS_HEIGHT = 28

/**
 * Predicted and actual values as points over time. Colours come from the page's style, so they follow light and dark
 * mode.
 */
export function Chart({ x, actual, predicted, format }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const formatNow = useRef(format)
  formatNow.current = format
  const data: uPlot.AlignedData = [x, actual, predicted]
  const dataNow = useRef(data)
  dataNow.current = data
  useEffect(() => {
    const element = box.current!
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const draw = () => {
      plot.current?.destroy()
      plot.current = new uPlot(
        optionsOf(element, (value) => formatNow.current(value)),
        dataNow.current,
        element,
      )
    }
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }))
    draw()
    resized.observe(element)
    scheme.addEventListener('change', draw)
    return () => {
      scheme.removeEventListener('change', draw)
      resized.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [])
  useEffect(() => plot.current?.setData(data))
  return <div class="chart" ref={box} aria-hidden="true" />
}

function optionsOf(element: HTMLElement, format: (value: number) => string): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(name)
  const axis = {
    stroke: colour('--dim'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  const points = (name: string, size: number) => ({
    stroke: colour(name),
    paths: () => null,
    points: { show: true, size, fill: colour(name), stroke: colour(name) },
  })
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(1, most) * 1.08] } },
    axes: [
      {
        ...axis,
        space: 90,
        size: AXIS_HEIGHT,
        values: (_plot, at) => at.map((second) => new Date(second * 1000).toLocaleTimeString('en-GB')),
      },
      { ...axis, size: AXIS_WIDTH, values: (_plot, values) => values.map(format) },
    ],
    series: [{}, points('--glow', 6), points('--cool', 4)],
  }
}

interface Pair {
  readonly at: number
  readonly predicted: number
  readonly actual: number
}

type Read = (decision: Decision) => readonly [predicted: number | null, actual: number | null | undefined]

const ttft: Read = (decision) => [decision.predicted_ttft_ms, ttftOf(decision)]
const cached: Read = (decision) => [decision.predicted_cached_tokens, cachedTokensOf(decision)]

/** |actual - predicted| / actual; empty if one is unknown. */
export function ttftError(decision: Decision): number[] {
  const { predicted_ttft_ms: predicted } = decision
  const measured = ttftOf(decision) ?? 0
  return predicted !== null && measured > 0 ? [Math.abs(measured - predicted) / measured] : []
}

/** Decisions with both values, oldest first. */
function pairsOf(decisions: readonly Decision[], read: Read): Pair[] {
  const pairs: Pair[] = []
  for (const decision of decisions.toReversed()) {
    const [predicted, actual] = read(decision)
    if (predicted !== null && actual !== null && actual !== undefined)
      pairs.push({ at: decision.at / 1000, predicted, actual })
  }
  return pairs
}

/** Error of the predictions that routed requests. */
export function Prediction({ decisions }: { readonly decisions: readonly Decision[] }) {
  const ttfts = pairsOf(decisions, ttft)
  const tokens = pairsOf(decisions, cached)
  const errors = decisions.flatMap(ttftError)
  const bias = ttfts.map(({ predicted, actual }) => predicted - actual)
  const missed = tokens.map(({ predicted, actual }) => Math.abs(actual - predicted))
  return (
    <section aria-labelledby="prediction">
      <h2 id="prediction">Prediction</h2>
      <div class="charts">
        <Figure
          title="TTFT"
          pairs={ttfts}
          format={ms}
          empty="No request with a predicted and a measured TTFT yet. Streamed requests have both."
          text={
            `error ${percent(quantile(errors, 0.5))} median (${percent(quantile(errors, 0.9))} at p90), bias ` +
            `${ms(quantile(bias, 0.5))}, ${plural(ttfts.length, 'request')}`
          }
        />
        <Figure
          title="Cached tokens"
          pairs={tokens}
          format={count}
          empty={
            <>
              No engine has said how many tokens it had cached. vLLM does with{' '}
              <code>--enable-prompt-tokens-details</code>; requests whose prefill was elsewhere say nothing of it.
            </>
          }
          text={
            `error ${count(quantile(missed, 0.5))} tokens median (${count(quantile(missed, 0.9))} at p90), ` +
            `${plural(tokens.length, 'request')}`
          }
        />
      </div>
    </section>
  )
}

interface FigureProps {
  readonly title: string
  readonly pairs: readonly Pair[]
  readonly format: (value: number) => string
  readonly empty: ComponentChildren
  readonly text: string
}

function Figure({ title, pairs, format, empty, text }: FigureProps) {
  if (pairs.length === 0) {
    return (
      <figure>
        <h3>{title}</h3>
        <p class="empty">{empty}</p>
      </figure>
    )
  }
  return (
    <figure>
      <h3>
        {title}
        <span class="legend">
          <span>
            <i class="actual" /> actual
          </span>
          <span>
            <i class="predicted" /> predicted
          </span>
        </span>
      </h3>
      <Chart
        x={pairs.map(({ at }) => at)}
        actual={pairs.map(({ actual }) => actual)}
        predicted={pairs.map(({ predicted }) => predicted)}
        format={format}
      />
      <figcaption>{text}</figcaption>
    </figure>
  )
}
