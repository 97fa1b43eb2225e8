/** Annotations of a pod that describe its engine. */
import type { Pod } from './pod.ts'

interface PodAnnotation {
  readonly name: string
  /** null: the text is no value. */
  readonly read: (text: string) => number | null
  /** Values, for the log. */
  readonly values: string
}

/** Weight of the engine. */
const WEIGHT: PodAnnotation = {
  name: 'firstlight/weight',
  read: (text) => {
    const weight = Number(text)
    return text !== '' && weight >= 0 && weight <= 1000 ? weight : null
  },
  values: 'a weight from 0 to 1000',
}

/** Port of the engine's KV events: `5557` or `tcp://*:5557`. */
const KV_EVENTS: PodAnnotation = {
  name: 'firstlight/kv-events',
  read: (text) => {
    const digits = /^(?:tcp:\/\/[^:/]*:)?([0-9]{1,5})$/.exec(text)?.[1]
    const port = Number(digits)
    return digits !== undefined && port >= 1 && port <= 65_535 ? port : null
  },
  values: 'a port such as 5557 for KV events',
}

const ANNOTATIONS: readonly PodAnnotation[] = [WEIGHT, KV_EVENTS]

/** What the annotations may contain, for the log. */
export const ANNOTATION_VALUES = ANNOTATIONS.map(({ values }) => values).join(', and ')

function valueOf({ metadata }: Pod, { name, read }: PodAnnotation): number | null {
  const text = metadata.annotations?.[name]
  return text === undefined ? null : read(text.trim())
}

/** Weight from 0 to 1000; null: absent or invalid. */
export const weightOf = (pod: Pod): number | null => valueOf(pod, WEIGHT)

/** Port of the KV events; null: absent or invalid. */
export const kvEventsPortOf = (pod: Pod): number | null => valueOf(pod, KV_EVENTS)

/** Annotations whose values are not used. */
export const invalidAnnotations = (pod: Pod): readonly string[] =>
  ANNOTATIONS.filter(
    (annotation) => pod.metadata.annotations?.[annotation.name] !== undefined && valueOf(pod, annotation) === null,
  ).map(({ name }) => name)

/** Annotations with the ports of a pod that serve, of the inference extension and of llm-d. */
const ACTIVE_PORTS = ['inference.networking.k8s.io/active-ports', 'llm-d.ai/active-ports'] as const

/** Whether a target port of the pod serves: all do unless an annotation lists some. */
export function isActive({ metadata }: Pod, port: number): boolean {
  const list = ACTIVE_PORTS.map((name) => metadata.annotations?.[name]).find((text) => text !== undefined)
  return list === undefined || list.split(',').some((text) => Number(text) === port)
}
