import { escapeHtml } from './escape.ts'

interface Line {
  readonly label: string
  readonly colour: string
  /** Class name, with which a page hides the line. */
  readonly id: string
  readonly points: readonly (readonly [number, number])[]
  /** Dots instead of a line. */
  readonly dots?: boolean
}

interface PlotOptions {
  readonly title: string
  readonly x: string
  readonly y: string
  readonly logX?: boolean
  readonly logY?: boolean
}

const WIDTH = 560

const HEIGHT = 300

const LEFT = 62

const RIGHT = 14

const TOP = 30

const BOTTOM = 42

interface Scale {
  at(value: number): number
  readonly ticks: readonly number[]
}

/** Renders one line plot as SVG. */
export function plot(lines: readonly Line[], options: PlotOptions): string {
  const points = lines.flatMap((line) => line.points)
  const x = scale(
    points.map(([value]) => value),
    options.logX === true,
    [LEFT, WIDTH - RIGHT],
  )
  const y = scale(
    points.map(([, value]) => value),
    options.logY === true,
    [HEIGHT - BOTTOM, TOP],
  )
  const grid = [
    ...x.ticks.map(
      (tick) =>
        `<line class="grid" x1="${px(x.at(tick))}" x2="${px(x.at(tick))}" y1="${TOP}" y2="${HEIGHT - BOTTOM}"/><text ` +
        `x="${px(x.at(tick))}" y="${HEIGHT - BOTTOM + 15}" text-anchor="middle">${label(tick)}</text>`,
    ),
    ...y.ticks.map(
      (tick) =>
        `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(y.at(tick))}" y2="${px(y.at(tick))}"/><text ` +
        `x="${LEFT - 6}" y="${px(y.at(tick) + 4)}" text-anchor="end">${label(tick)}</text>`,
    ),
  ]
  const drawn = lines.map((line) => (line.dots === true ? dots(line, x, y) : path(line, x, y)))
  return (
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(options.title)}"><text class="title" ` +
    `x="${LEFT}" y="18">${escapeHtml(options.title)}</text>${grid.join('')}${drawn.join('')}<text ` +
    `x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 6}" text-anchor="middle">${escapeHtml(options.x)}</text><text ` +
    `transform="translate(13 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" ` +
    `text-anchor="middle">${escapeHtml(options.y)}</text></svg>`
  )
}

/** Renders grouped bars: one group per engine, one bar per policy. */
export function bars(
  groups: readonly (Omit<Line, 'points' | 'dots'> & { readonly values: readonly number[] })[],
  options: Pick<PlotOptions, 'title' | 'x' | 'y'>,
): string {
  const max = Math.max(1e-9, ...groups.flatMap((group) => group.values))
  const count = Math.max(1, ...groups.map((group) => group.values.length))
  const y = scale([0, max], false, [HEIGHT - BOTTOM, TOP])
  const group = (WIDTH - LEFT - RIGHT) / count
  const width = (group * 0.8) / Math.max(1, groups.length)
  const rects = groups.flatMap(({ label: name, colour, id, values }, place) =>
    values.map(
      (value, at) =>
        `<rect class="${id}" x="${px(LEFT + at * group + group * 0.1 + place * width)}" y="${px(y.at(value))}" ` +
        `width="${px(Math.max(0.5, width - 0.5))}" height="${px(HEIGHT - BOTTOM - y.at(value))}" ` +
        `fill="${colour}"><title>${escapeHtml(name)}, engine ${at}: ${label(value)}</title></rect>`,
    ),
  )
  const ticks = y.ticks.map(
    (tick) =>
      `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(y.at(tick))}" y2="${px(y.at(tick))}"/><text ` +
      `x="${LEFT - 6}" y="${px(y.at(tick) + 4)}" text-anchor="end">${label(tick)}</text>`,
  )
  return (
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(options.title)}"><text ` +
    `class="title" x="${LEFT}" y="18">${escapeHtml(options.title)}</text>${ticks.join('')}${rects.join('')}<text ` +
    `x="${(LEFT + WIDTH) / 2}" y="${HEIGHT - 6}" text-anchor="middle">${escapeHtml(options.x)}</text><text ` +
    `transform="translate(13 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" ` +
    `text-anchor="middle">${escapeHtml(options.y)}</text></svg>`
  )
}

function path({ points, colour, id, label: name }: Line, x: Scale, y: Scale): string {
  if (points.length === 0) return ''
  return (
    `<path class="${id}" d="M${points.map(([one, other]) => `${px(x.at(one))} ${px(y.at(other))}`).join('L')}" ` +
    `fill="none" stroke="${colour}" stroke-width="1.6"><title>${escapeHtml(name)}</title></path>`
  )
}

function dots({ points, colour, id }: Line, x: Scale, y: Scale): string {
  return points
    .map(
      ([one, other]) =>
        `<circle class="${id}" cx="${px(x.at(one))}" cy="${px(y.at(other))}" r="1.6" fill="${colour}" ` +
        'fill-opacity="0.5"/>',
    )
    .join('')
}

function scale(values: readonly number[], log: boolean, [from, to]: readonly [number, number]): Scale {
  const usable = log ? values.filter((value) => value > 0) : values
  const low = log ? usable.reduce((min, value) => Math.min(min, value), Infinity) : 0
  const high = usable.reduce((max, value) => Math.max(max, value), -Infinity)
  if (!Number.isFinite(low) || !Number.isFinite(high)) return { at: () => from, ticks: [] }
  if (!log) {
    const step = niceStep(high / 5)
    const top = Math.max(step, Math.ceil(high / step - 1e-9) * step)
    return {
      at: (value) => from + (value / top) * (to - from),
      ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step),
    }
  }
  const first = Math.floor(Math.log10(low))
  const last = Math.max(first + 1, Math.ceil(Math.log10(high)))
  const at = (value: number) => from + ((Math.max(first, Math.log10(value)) - first) / (last - first)) * (to - from)
  return { at, ticks: Array.from({ length: last - first + 1 }, (_, power) => 10 ** (first + power)) }
}

function niceStep(size: number): number {
  if (!(size > 0)) return 1
  const power = 10 ** Math.floor(Math.log10(size))
  return [1, 2, 5, 10].find((step) => step * power >= size)! * power
}

function label(value: number): string {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`
  if (Math.abs(value) >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`
  return String(Number(value.toPrecision(3)))
}

const px = (value: number) => value.toFixed(1)
