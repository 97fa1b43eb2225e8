import { type Answer, type Incoming, json } from '../answer.ts'
import { WireError } from './wire-error.ts'

/** Parts of the engine that sleep, pause and related commands need. */
export interface OperatedEngine {
  readonly sleepLevel: number
  readonly paused: boolean
  sleep(level: number, abort: boolean): void
  wake(): void
  pause(mode: 'abort' | 'wait' | 'keep', clearCache: boolean): Promise<void>
  resume(): void
  resetCache(): boolean
}

type OperationsHandler = (engine: OperatedEngine, incoming: Incoming) => Answer | Promise<Answer>

/** vLLM's development endpoints. */
export const operations: Readonly<Record<string, Readonly<Record<string, OperationsHandler>>>> = {
  '/sleep': {
    POST: (engine, { query }) => {
      const level = Number(query.get('level') ?? 1)
      engine.sleep(level, (query.get('mode') ?? 'abort') === 'abort')
      return json(200, { status: 'sleeping', level })
    },
  },
  '/wake_up': {
    POST: (engine, { query }) => {
      engine.wake()
      const tags = query.getAll('tags')
      return json(200, { status: 'awake', tags: tags.length > 0 ? tags : null })
    },
  },
  '/is_sleeping': { GET: (engine) => json(200, { is_sleeping: engine.sleepLevel > 0 }) },
  '/pause': {
    POST: async (engine, { query }) => {
      const mode = query.get('mode') ?? 'abort'
      if (mode !== 'abort' && mode !== 'wait' && mode !== 'keep') {
        throw new WireError(400, 'BadRequestError', `Invalid pause mode: ${mode}. Use abort, wait or keep.`)
      }
      await engine.pause(mode, query.get('clear_cache') !== 'false')
      return json(200, { status: 'paused' })
    },
  },
  '/resume': {
    POST: (engine) => {
      engine.resume()
      return json(200, { status: 'resumed' })
    },
  },
  '/is_paused': { GET: (engine) => json(200, { is_paused: engine.paused }) },
  '/reset_prefix_cache': { POST: (engine) => json(200, { success: engine.resetCache() }) },
}
