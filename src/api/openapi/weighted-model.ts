/** Names that stand for several models by weight. */
import * as z from 'zod/mini'
import { component, milliseconds, number, text, texts } from './fields.ts'
import type { View } from './view.ts'

const target = component(
  'Target',
  z.object({
    model: text,
    weight: number,
    keys: texts,
    stopped_since: z.nullable(milliseconds),
    requests: number,
    refused: number,
    failed: number,
    mean_ttft_ms: z.nullable(number),
    mean_token_ms: z.nullable(number),
    mean_output_tokens: z.nullable(number),
  }),
)

export type TargetView = View<typeof target>

export const weightedModels = component(
  'WeightedModels',
  z.object({ weighted_models: z.array(z.object({ name: text, targets: z.array(target) })) }),
)

export type WeightedModelsView = View<typeof weightedModels>
