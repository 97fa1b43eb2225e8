/**
 * Ollama. Source: ollama/ollama fb30760 of 2026-08-21 (server/routes.go `handleScheduleError`, server/sched.go
 * `ErrMaxQueue`, openai/openai.go and anthropic/anthropic.go `NewError`). Not run.
 */
import { answersBy, type TextRule } from './answer-meaning.ts'
import { PLAIN, VERSION_PATTERN, type EngineType } from './engine-type.ts'
import { FULL, PROXY_TEXTS } from './proxy-answers.ts'

export const OLLAMA_TEXTS: readonly TextRule[] = [
  // `OLLAMA_MAX_QUEUE`, 512 by default. Two spaces in the text.
  { statuses: FULL, pattern: /^server busy, please try again\./, means: 'busy' },
  // Single quotes in most handlers, double quotes from the scheduler.
  { statuses: [404], pattern: /^model ['"](?<name>.+?)['"] not found/, means: 'lacks_model' },
  // The model was loaded without embeddings: the answer of the llama.cpp server inside.
  { statuses: [400, 500, 501], pattern: /^This server does not support embeddings\b/, means: 'lacks_route' },
]

export const ollama: EngineType = {
  ...PLAIN,
  name: 'ollama',
  title: 'Ollama',
  detection: {
    metrics: [],
    // `owned_by` is the namespace of the model.
    owners: ['library'],
    server: null,
    routes: [{ path: '/api/version', body: /^\s*\{"version": ?"/ }],
  },
  health: [{ path: '/api/version', limitMs: 5_000, everyMs: null, badFrom: 500 }],
  version: { path: '/api/version', pattern: VERSION_PATTERN },
  // Prompts are cut silently at the context, which depends on the loaded model.
  capacity: null,
  answerOf: answersBy({ texts: [...OLLAMA_TEXTS, ...PROXY_TEXTS], tooLong: [], tooManyRequests: 'busy' }),
}
