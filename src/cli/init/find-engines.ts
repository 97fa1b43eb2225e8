/** Asks servers which models they serve. */
import { modelCards } from '../../engines/model-list.ts'
import { ask, isAnswer, jsonOf } from '../doctor/ask.ts'

export interface FoundEngine {
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Base models, without adapters; never empty. */
  readonly models: readonly string[]
}

/** A server that is no engine as far as this host can see. */
export interface Unusable {
  readonly url: string
  readonly why: string
}

/** Usual ports of vLLM (8000 and next ones), SGLang, llama.cpp, TGI and Ollama. */
const USUAL_PORTS = [8000, 8001, 8002, 8003, 30000, 30001, 8080, 3000, 11434]

/** Addresses of this machine at which engines usually listen. */
export const usualAddresses = (): readonly string[] => USUAL_PORTS.map((port) => `http://127.0.0.1:${port}`)

/** @param key bearer token of the engine; null: none */
export async function examineServer(url: string, key: string | null, limitMs: number): Promise<FoundEngine | Unusable> {
  const headers: Readonly<Record<string, string>> = key === null ? {} : { authorization: `Bearer ${key}` }
  const result = await ask({ url, headers }, { path: '/v1/models', limitMs })
  if (!isAnswer(result)) return { url, why: `${result.message}. ${result.next}` }
  if (result.status === 401 || result.status === 403)
    return { url, why: 'it requires a key: name the variable that has it with --key-env' }
  const cards = modelCards(jsonOf(result))
  if (result.status !== 200 || cards === null)
    return { url, why: `/v1/models answers ${result.status} without a list of models: it is not an engine` }
  const models = cards.filter(({ parent }) => parent === null).map(({ id }) => id)
  return models.length === 0 ? { url, why: 'it serves no model yet' } : { url, models }
}
