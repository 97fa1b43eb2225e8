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
