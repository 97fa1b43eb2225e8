import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

interface ChartProps {
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
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max) * 1.08] } },
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
