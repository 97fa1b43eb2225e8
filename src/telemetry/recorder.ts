/**
 * Records the gateway's traffic as a trace for `firstlight replay`: times, lengths and salted hashes of blocks,
 * without texts, tokens or names. It wraps the clusters, so it records what was admitted.
 */
import { type Admission, type Outcome, PAYLOAD_VERSION } from '../core/contract/contract.ts'
import { hashPair, hashText } from '../core/routing/rendezvous.ts'
import type { Admitted, Cluster, Lease } from '../ports.ts'

export interface RecorderOptions {
  /** Secret salt: recordings with different salts cannot be compared. */
  readonly salt: number
  readonly blockTokens: number
  now(): number
  /** Writes one line without its end. Never throws. */
  write(line: string): void
}

/** Returns the cluster with its requests recorded. */
export function recorded(cluster: Cluster, options: RecorderOptions): Cluster {
  return {
    ...bound(cluster),
    async admit(admission: Admission): Promise<Admitted> {
      const arrivedAt = options.now()
      const admitted = await cluster.admit(admission)
      // A retry is the same request.
      if ('refusal' in admitted || admission.attempt > 0) return admitted
      return {
        ...admitted,
        lease: watched(admitted.lease, (outcome) =>
          options.write(lineOf(admission, outcome, { ...options, arrivedAt })),
        ),
      }
    },
  }
}

/** Binds the methods: those of classes and stubs are not own properties. */
function bound(cluster: Cluster): Cluster {
  return {
    configure: (version, pool) => cluster.configure(version, pool),
    admit: (admission) => cluster.admit(admission),
    resume: (booking) => cluster.resume(booking),
    rank: (admission) => cluster.rank(admission),
    observe: (signals) => cluster.observe(signals),
    digest: () => cluster.digest(),
    explain: (id) => cluster.explain(id),
    regionDigest: () => cluster.regionDigest(),
    ...(cluster.registry === undefined ? {} : { registry: (call) => cluster.registry!(call) }),
    ...(cluster.feed === undefined ? {} : { feed: (feeds) => cluster.feed!(feeds) }),
    ...(cluster.summary === undefined ? {} : { summary: (decisions: number) => cluster.summary!(decisions) }),
  }
}

function watched(lease: Lease, released: (outcome: Outcome) => void): Lease {
  let exported = false
  const tell = (outcome: Outcome): void => {
    if (exported || outcome.version !== PAYLOAD_VERSION || outcome.result !== 'complete') return
    exported = true
    released(outcome)
  }
  return new Proxy(lease, {
    get(target, name) {
      if (name === 'release') {
        return (outcome: Outcome) => {
          tell(outcome)
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
export function lineOf(
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
