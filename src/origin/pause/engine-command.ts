/** Commands of the gateway to an engine: pause, resume, sleep, wake. */
import type { EngineCall } from '../../engines/engine-type.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { readRoute } from '../engine-route.ts'

/** `lacks`: the engine has no such route. */
type CommandResult = 'obeyed' | 'failed' | 'lacks'

/** Never rejects. */
export async function commandEngine(
  { origin, log }: Pick<Ports, 'origin' | 'log'>,
  target: EngineTarget,
  { path, body = {} }: EngineCall,
  limitMs: number,
): Promise<CommandResult> {
  try {
    const { status, text } = await readRoute(origin, target, path, { limitMs, posted: body })
    if (status === 404 || status === 405) return 'lacks'
    if (status < 300 && !/"success": ?false/.test(text)) return 'obeyed'
    log.warn('engine_call_failed', { engine: target.id, path, status, body: text.slice(0, 200) })
  } catch (error) {
    log.warn('engine_call_failed', { engine: target.id, path, error })
  }
  return 'failed'
}
