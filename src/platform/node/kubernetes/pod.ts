/** Fields of a pod of the Kubernetes API that describe its engine. */
import type { KubernetesObject } from './list-watch.ts'

/** Fields of a pod that are read. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ */
export interface Pod extends KubernetesObject {
  readonly metadata: KubernetesObject['metadata'] & {
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
    readonly deletionTimestamp?: string
  }
  readonly spec?: {
    readonly containers?: readonly { readonly ports?: readonly { name?: string; containerPort: number }[] }[]
  }
  readonly status?: {
    readonly phase?: string
    readonly podIP?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

/** Annotation with the weight of the engine. */
const WEIGHT = 'firstlight/weight'

/** Annotation with the port, or the ZeroMQ endpoint, of the engine's KV events. */
const KV_EVENTS = 'firstlight/kv-events'

/** True if the pod is Ready, has an address and is not terminating. */
export function isReady({ metadata, status }: Pod): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.podIP !== undefined &&
    status.phase !== 'Succeeded' &&
    status.phase !== 'Failed' &&
    (status.conditions ?? []).some((condition) => condition.type === 'Ready' && condition.status === 'True')
  )
}

/** Port number of a name or number; null: no container declares a port with this name. */
export function portOf({ spec }: Pod, port: string | number): number | null {
  if (typeof port === 'number') return port
  const ports = (spec?.containers ?? []).flatMap((container) => container.ports ?? [])
  return ports.find(({ name }) => name === port)?.containerPort ?? null
}

/** Weight from 0 to 1000; null: absent or invalid. */
export function weightOf({ metadata }: Pod): number | null {
  const text = metadata.annotations?.[WEIGHT]?.trim() ?? ''
  const weight = Number(text)
  return text !== '' && weight >= 0 && weight <= 1000 ? weight : null
}

/** Port of the KV events: `5557` or `tcp://*:5557`; null: absent or invalid. */
export function kvEventsPortOf({ metadata }: Pod): number | null {
  const digits = /^(?:tcp:\/\/[^:/]*:)?([0-9]{1,5})$/.exec(metadata.annotations?.[KV_EVENTS]?.trim() ?? '')?.[1]
  const port = Number(digits)
  return digits !== undefined && port >= 1 && port <= 65_535 ? port : null
}

/** Annotations with the ports of a pod that serve, of the inference extension and of llm-d. */
const ACTIVE_PORTS = ['inference.networking.k8s.io/active-ports', 'llm-d.ai/active-ports'] as const

/** Whether a target port of the pod serves: all do unless an annotation lists some. */
export function isActive({ metadata }: Pod, port: number): boolean {
  const list = ACTIVE_PORTS.map((name) => metadata.annotations?.[name]).find((text) => text !== undefined)
  return list === undefined || list.split(',').some((text) => Number(text) === port)
}

/** Annotations whose values are not used. */
export function invalidAnnotations(pod: Pod): readonly string[] {
  const { annotations = {} } = pod.metadata
  return [
    ...(annotations[WEIGHT] !== undefined && weightOf(pod) === null ? [WEIGHT] : []),
    ...(annotations[KV_EVENTS] !== undefined && kvEventsPortOf(pod) === null ? [KV_EVENTS] : []),
  ]
}
