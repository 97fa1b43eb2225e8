/** Ports of pods that are data-parallel ranks: `8000-8007`, or a list of numbers. */
import type { EngineConfig } from '../config.ts'

type PodSettings = NonNullable<EngineConfig['kubernetes']>

/** Maximum number of ports of a pod. */
const MAX_POD_PORTS = 64

/** Numbers of a range or list. Empty: there is none, or the range is malformed. */
function portNumbers(ports: PodSettings['ports']): readonly number[] {
  if (ports === null) return []
  if (typeof ports !== 'string') return ports
  const [first = NaN, last = NaN] = ports.split('-').map(Number)
  return Array.from({ length: Math.max(0, Math.min(last - first, MAX_POD_PORTS) + 1) }, (_, at) => first + at)
}

/** Why the ports are not those of ranks. null: they are. */
export function portsProblem(ports: PodSettings['ports']): string | null {
  const numbers = portNumbers(ports)
  if (ports !== null && numbers.length === 0) return 'must be a range whose first port is not above its last'
  if (numbers.length > MAX_POD_PORTS) return `must have at most ${MAX_POD_PORTS} ports`
  if (numbers.some((port) => port < 1 || port > 65_535)) return 'must have ports from 1 to 65535'
  return new Set(numbers).size === numbers.length ? null : 'has a port twice'
}

/** Ports to ask of each pod, by number or name; null: that of the template's URL. */
export const podPorts = ({ port, ports }: PodSettings): readonly (string | number | null)[] =>
  ports === null ? [port] : portNumbers(ports)
