/** Route where an engine of each type shows its context. */
import type { Routes } from '../../../test/kit/fake-answer.ts'

export function contextRoutes(type: string, model: string, tokens: number): Routes {
  if (type === 'llama.cpp')
    return { 'GET /props': { body: { default_generation_settings: { n_ctx: tokens }, total_slots: 1 } } }
  if (type === 'tgi') return { 'GET /info': { body: { max_total_tokens: tokens, model_id: model } } }
  const owner = type === 'unknown' ? 'vllm' : type
  const card = { id: model, object: 'model', owned_by: owner, max_model_len: tokens }
  return { 'GET /v1/models': { body: { object: 'list', data: [card] } } }
}
