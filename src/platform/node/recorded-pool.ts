/**
 * Records the traffic of a pool as a trace for `firstlight replay`: times, lengths and salted hashes of blocks, without
 * texts, tokens or names. Only admitted requests are recorded.
 */
import type { Admission } from '../../core/contract/admission.ts'
import type { Outcome } from '../../core/contract/outcome.ts'
import { PAYLOAD_VERSION } from '../../core/contract/payload-version.ts'
import { hashPair, hashText } from '../../core/routing/placement-hash.ts'
import type { Lease } from '../../ports/lease.ts'
import type { AdmitResult, PoolPort, WrappedPool } from '../../ports/pool.ts'

interface RecordingOptions {
  /** Secret salt: recordings with different salts cannot be compared. */
  readonly salt: number
  readonly blockTokens: number
  now(): number
  /** Writes one line without its end. Never throws. */
  write(line: string): void
}

/** Returns the pool with its requests recorded. */
export function withRecording(pool: PoolPort, options: RecordingOptions): PoolPort {
  return {
    ...boundMethods(pool),
    async admit(admission) {
      const arrivedAt = options.now()
      return recorded(await pool.admit(admission), admission, { ...options, arrivedAt })
    },
    queue: pool.queue && {
      ...pool.queue,
      async wait(admission, waitedMs) {
        const arrivedAt = options.now() - waitedMs
        return recorded(await pool.queue!.wait(admission, waitedMs), admission, { ...options, arrivedAt })
      },
    },
  }
}

/** Writes the line of an admitted request at its end. A retry is the same request. */
function recorded(
  admitted: AdmitResult,
  admission: Admission,
  options: RecordingOptions & { readonly arrivedAt: number },
): AdmitResult {
  if ('refusal' in admitted || admission.attempt > 0) return admitted
  const lease = withReleaseHook(admitted.lease, (outcome) => options.write(traceLine(admission, outcome, options)))
  return { ...admitted, lease }
}

/** Binds the methods: those of classes and stubs are not own properties. */
function boundMethods(port: PoolPort): WrappedPool {
  const { local, remote, queue, registry, kvEvents, decisions, overview, costs, region } = port
  return {
    configure: (version, pool) => port.configure(version, pool),
    admit: (admission) => port.admit(admission),
    resume: (booking) => port.resume(booking),
    observe: (signals) => port.observe(signals),
    digest: () => port.digest(),
    // Requests are recorded by `admit`.
    local: local === undefined ? undefined : { ...local, admit: () => null },
    remote,
    queue,
    registry,
    kvEvents,
    decisions,
    overview,
    costs,
    region,
  }
}

function withReleaseHook(lease: Lease, released: (outcome: Outcome) => void): Lease {
  let reported = false
  const report = (outcome: Outcome): void => {
    if (reported || outcome.version !== PAYLOAD_VERSION || outcome.result !== 'complete') return
    reported = true
    released(outcome)
  }
  return new Proxy(lease, {
    get(target, name) {
      if (name === 'release') {
        return (outcome: Outcome) => {
          report(outcome)
          return target.release(outcome)
        }
      }
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

const TWO_TO_20 = 2 ** 20

/** Trace line in Mooncake's schema, with this pool's block size. */
function traceLine(
  admission: Admission,
  outcome: Outcome,
  { salt, blockTokens, arrivedAt }: { readonly salt: number; readonly blockTokens: number; readonly arrivedAt: number },
): string {
  const ids: number[] = []
  for (let at = 0; at < admission.blocks.length; at += 2) {
    const low = hashPair(salt, admission.blocks[at]!)
    const high = hashPair(low ^ salt, admission.blocks[at + 1]!)
    // 52 bits, which JSON carries unharmed.
    ids.push(high * TWO_TO_20 + (low & (TWO_TO_20 - 1)))
  }
  return JSON.stringify({
    timestamp: Math.round(arrivedAt),
    input_length: outcome.usage?.promptTokens ?? admission.promptTokens,
    output_length: Math.max(1, outcome.usage?.completionTokens ?? outcome.outputEvents),
    hash_ids: ids,
    block_tokens: blockTokens,
    ...(admission.session === null ? {} : { session_id: hashPair(salt, hashText(admission.session)).toString(36) }),
  })
}
