/** What each `split.connector` does: one line for each. */
import type { PoolSettings } from '../../config.ts'
import type { JsonObject } from '../../core/json.ts'
import { BOOTSTRAP_FIELDS } from '../../engines/sglang-bootstrap.ts'
import { DISAGGREGATED_PARAMS } from '../../engines/tensorrt-disagg.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Protocol } from '../../protocols/protocol.ts'
import type { AttemptContext } from '../attempt-context.ts'
import type { LegResult } from './final-leg.ts'
import { unsplittableByLmcache } from './lmcache-fields.ts'
import { lmcacheLeg } from './lmcache-leg.ts'
import { mooncakeLeg } from './mooncake-leg.ts'
import { prefillLeg } from './prefill-leg.ts'
import { sglangLeg, unsplittableBySglang } from './sglang-leg.ts'
import { tensorrtLeg, unsplittableByTensorrt } from './tensorrt-leg.ts'

type SplitSettings = PoolSettings['split']

interface Connector {
  /** Runs the prefill leg, or prepares one beside the decode leg. */
  readonly leg: (attempt: AttemptContext, prefill: EngineTarget) => LegResult | Promise<LegResult>
  /** Why this connector cannot split a request. null: it can. */
  unsplittable(protocol: Protocol, json: JsonObject, split: SplitSettings): string | null
  /** The engine exempts prefill legs from some of its checks. */
  readonly isExempt: boolean
  /** Both legs run at once. */
  readonly isPaired: boolean
  /** Fields that name a transfer, so that no client may set them. vLLM's are removed in all pools. */
  fields(split: SplitSettings): readonly string[]
}

const PREFILL_FIRST = { leg: prefillLeg, unsplittable: () => null, isExempt: false, isPaired: false, fields: () => [] }

export const connectors: Readonly<Record<SplitSettings['connector'], Connector>> = {
  // vLLM exempts a prefill leg with NIXL's parameters.
  nixl: { ...PREFILL_FIRST, isExempt: true },
  response: { ...PREFILL_FIRST, fields: ({ responseField }) => [responseField] },
  lmcache: {
    ...PREFILL_FIRST,
    leg: lmcacheLeg,
    unsplittable: (protocol, json, { lmcache }) => unsplittableByLmcache(protocol, json, lmcache.chat),
  },
  mooncake: { ...PREFILL_FIRST, leg: mooncakeLeg, isPaired: true },
  sglang: {
    ...PREFILL_FIRST,
    leg: sglangLeg,
    unsplittable: unsplittableBySglang,
    isPaired: true,
    fields: () => BOOTSTRAP_FIELDS,
  },
  tensorrt: {
    ...PREFILL_FIRST,
    leg: tensorrtLeg,
    unsplittable: unsplittableByTensorrt,
    fields: () => [DISAGGREGATED_PARAMS],
  },
}
