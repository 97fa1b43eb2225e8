/** Names that stand for several models by weight: which of them a request gets, and what became of it. */
import type { Config } from '../config.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'
import { type CountsByTarget, hasFailed, NO_TARGET_COUNTS, withTargetRequest } from '../core/traffic/target-counts.ts'
import { type WeightedTarget, WeightedTargets } from '../core/traffic/weighted-targets.ts'
import { Failure } from '../failure.ts'
import type { Ports } from '../ports.ts'
import type { TargetView, WeightedModelsView } from './openapi/weighted-model.ts'

interface Requester {
  /** Name of the client's key. */
  readonly key: string
  /** null: the client names none. */
  readonly session: string | null
  /** Target that the request names in its options, with the permission of its key. undefined: none. */
  readonly requested: string | undefined
}

/** The target of one request. */
export interface ChosenTarget {
  /** Name that the client requested. */
  readonly name: string
  readonly target: WeightedTarget
}

type WeightedPorts = Pick<Ports, 'random' | 'now' | 'log'>

export class WeightedModels {
  readonly #ports: WeightedPorts
  readonly #models: ReadonlyMap<string, WeightedTargets>
  readonly #settings: Config['weightedModels']
  #counts: CountsByTarget = {}

  constructor(settings: Config['weightedModels'], ports: WeightedPorts) {
    this.#settings = settings
    this.#ports = ports
    this.#models = new Map(settings.map(({ name, targets }) => [name, new WeightedTargets(targets)]))
  }

  has(name: string): boolean {
    return this.#models.has(name)
  }

  /** Fails with `bad_value` if the request names a target that the model does not have. */
  choose(name: string, { key, session, requested }: Requester): ChosenTarget {
    const targets = this.#models.get(name)!
    if (requested === undefined) return { name, target: targets.choose({ key, session }, () => this.#ports.random()) }
    const target = targets.find(requested)
    if (target !== null) return { name, target }
    const models = this.#settings.find((one) => one.name === name)!.targets.map(({ model }) => model)
    throw new Failure(
      'bad_value',
      `firstlight.target is '${requested.slice(0, 100)}': it must be one of ${models.join(', ')}.`,
      { param: 'firstlight.target' },
    )
  }

  /** Counts an ended request. `outputTokens`: null if unknown. */
  ended({ name, target }: ChosenTarget, record: RequestRecord, outputTokens: number | null): void {
    this.#counts = withTargetRequest(this.#counts, [name, target.model], record, outputTokens)
    if (!this.#models.get(name)!.ended(target, hasFailed(record), this.#ports.now())) return
    this.#ports.log.error('target_stopped', { name, target: target.model, ...target.stop })
  }

  /** Counts of this gateway since it started. */
  get counts(): CountsByTarget {
    return this.#counts
  }

  /** Settings, state and counts of each target. `counts`: of all gateways. */
  view(counts: CountsByTarget): WeightedModelsView['weighted_models'] {
    return this.#settings.map(({ name, targets }) => ({
      name,
      targets: targets.map((target): TargetView => ({
        model: target.model,
        weight: target.weight,
        keys: target.keys,
        stopped_since: this.#models.get(name)!.stoppedSince(target),
        ...resultsOf(counts[name]?.[target.model] ?? NO_TARGET_COUNTS),
      })),
    }))
  }
}

const mean = (sum: number, count: number): number | null => (count === 0 ? null : sum / count)

type Results = Omit<TargetView, 'model' | 'weight' | 'keys' | 'stopped_since'>

/** Counts, and means for comparison; null: nothing was measured. */
function resultsOf({ requests, refused, failed, ...sums }: CountsByTarget[string][string]): Results {
  return {
    requests,
    refused,
    failed,
    mean_ttft_ms: mean(sums.ttftMs, sums.firstTokens),
    mean_token_ms: mean(sums.decodeMs, sums.outputTokens),
    mean_output_tokens: mean(sums.outputTokens, sums.streams),
  }
}
