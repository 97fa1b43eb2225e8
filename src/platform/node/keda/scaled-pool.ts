/** Pool and role that a ScaledObject names, and their capacity. */
import type { Config } from '../../../config.ts'
import type { RoleCapacity } from '../../../core/contract/pool-capacity.ts'
import type { Ports } from '../../../ports.ts'
import { GRPC, GrpcError } from '../grpc/grpc-status.ts'
import type { ScaledObject } from '../grpc/scaler-messages.ts'

/** Longest part of a value that an error repeats. */
const SHOWN = 100

interface ScaledPool {
  readonly cluster: string
  readonly model: string
  /** null: the pool has one role. */
  readonly role: string | null
}

/** Finds the pool. Throws a GrpcError that names the value. */
export function scaledPool({ metadata }: ScaledObject, { clusters }: Pick<Config, 'clusters'>): ScaledPool {
  const model = metadata.get('model')
  if (model === undefined) throw new GrpcError(GRPC.invalidArgument, 'The metadata of the trigger has no `model`.')
  const cluster = metadata.get('cluster') ?? null
  const found = clusters
    .filter(({ id }) => cluster === null || id === cluster)
    .flatMap(({ id, pools }) => pools.filter((pool) => pool.model === model).map((pool) => ({ id, pool })))
  const [first, second] = found
  if (first === undefined) {
    const place = cluster === null ? '' : ` in the cluster "${shown(cluster)}"`
    throw new GrpcError(GRPC.notFound, `There is no pool "${shown(model)}"${place}.`)
  }
  if (second !== undefined)
    throw new GrpcError(
      GRPC.invalidArgument,
      `Several clusters have a pool "${shown(model)}": add \`cluster\` to the metadata of the trigger.`,
    )
  if (first.pool.slo === null)
    throw new GrpcError(GRPC.failedPrecondition, `The pool "${shown(model)}" has no \`slo\`, so it has no capacity.`)
  return { cluster: first.id, model, role: metadata.get('role') ?? null }
}

/** Reads the capacity of the engines. Rejects with a GrpcError. */
export async function capacityOf(
  { cluster, model, role }: ScaledPool,
  ports: Pick<Ports, 'pool' | 'log'>,
): Promise<RoleCapacity> {
  const pool = ports.pool(cluster, model)
  const digest = await (pool.overview?.digest?.() ?? pool.digest()).catch((error: unknown) => {
    ports.log.warn('digest_unreachable', { cluster, pool: model, error })
    throw new GrpcError(GRPC.unavailable, `The state of the pool "${shown(model)}" cannot be read.`)
  })
  const { capacity } = digest
  if (capacity === undefined)
    throw new GrpcError(GRPC.failedPrecondition, `The pool "${shown(model)}" has no engines of its own.`)
  const own = role === null ? capacity : capacity.filter((one) => one.role === role)
  const [first, second] = own
  const roles = capacity.map((one) => one.role).join(', ')
  if (first === undefined)
    throw new GrpcError(
      GRPC.notFound,
      `The pool "${shown(model)}" has no role "${shown(role ?? '')}"; it has ${roles}.`,
    )
  if (second !== undefined)
    throw new GrpcError(
      GRPC.invalidArgument,
      `The pool "${shown(model)}" has several roles: add \`role\` to the metadata of the trigger, one of ${roles}.`,
    )
  return first
}

const shown = (value: string): string => value.slice(0, SHOWN)
