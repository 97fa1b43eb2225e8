/** InferencePool of the Gateway API Inference Extension, as written by its operator. */
import type { KubernetesObject } from './list-watch.ts'

/** Collection of a namespace. */
export const poolsPath = (namespace: string): string =>
  `/apis/inference.networking.k8s.io/v1/namespaces/${namespace}/inferencepools`

/** https://gateway-api-inference-extension.sigs.k8s.io/reference/spec/ */
export interface InferencePool extends KubernetesObject {
  readonly spec?: {
    readonly selector?: { readonly matchLabels?: unknown }
    readonly targetPorts?: unknown
    readonly appProtocol?: unknown
    readonly endpointPickerRef?: { readonly name?: unknown; readonly port?: { readonly number?: unknown } }
  }
}

export interface PoolQuery {
  /** Label selector of the pods. */
  readonly selector: string
  /** Each is the port of one engine of a pod. */
  readonly ports: readonly number[]
  /** `SERVICE:PORT` of the endpoint picker; null: none is named. */
  readonly picker: string | null
}

const MAX_PORTS = 8

const LABEL_KEY = /^[A-Za-z0-9][-A-Za-z0-9_./]{0,316}$/

const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/

/** Reads the fields that select the pods of engines. Returns the reason if they cannot be used. */
export function readPool({ spec = {} }: InferencePool): PoolQuery | { readonly problem: string } {
  const { selector, targetPorts, appProtocol = 'http', endpointPickerRef: picker } = spec
  const labels = selector?.matchLabels
  const pairs = typeof labels === 'object' && labels !== null ? Object.entries(labels as Record<string, unknown>) : []
  if (pairs.length === 0) return { problem: 'spec.selector.matchLabels has no labels' }
  const invalid = pairs.find(([key, value]) => !LABEL_KEY.test(key) || !isLabelValue(value))
  if (invalid !== undefined)
    return { problem: `spec.selector.matchLabels: "${invalid[0].slice(0, 63)}" is not a label` }
  const ports = portsIn(targetPorts)
  if (ports === null)
    return { problem: `spec.targetPorts: must be 1 to ${MAX_PORTS} different numbers from 1 to 65535` }
  if (appProtocol !== 'http')
    return { problem: `spec.appProtocol: "${String(appProtocol)}" is not supported, only http` }
  const at = typeof picker?.port?.number === 'number' ? `:${picker.port.number}` : ''
  return {
    selector: pairs.map(([key, value]) => `${key}=${String(value)}`).join(','),
    ports,
    picker: typeof picker?.name === 'string' ? picker.name + at : null,
  }
}

const isLabelValue = (value: unknown): boolean => typeof value === 'string' && LABEL_VALUE.test(value)

const isPort = (port: unknown): port is number => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= 65_535

function portsIn(given: unknown): readonly number[] | null {
  if (!Array.isArray(given) || given.length === 0 || given.length > MAX_PORTS) return null
  const numbers = given.map((one: unknown) => (one as { number?: unknown } | null)?.number)
  return numbers.every(isPort) && new Set(numbers).size === numbers.length ? numbers : null
}
