import type { Answer, BodyStream, BrokenConnection, Incoming } from './answer.ts'
import type { RequestLog } from './request-log.ts'

/**
 * Counts one inference request from start to end, however it ends, and allows the engine to interrupt it. `breakers`
 * has one interrupt function per running request.
 */
export async function supervise(
  log: RequestLog,
  breakers: Set<() => void>,
  incoming: Incoming,
  serve: () => Promise<Answer | BrokenConnection>,
): Promise<Answer | BrokenConnection> {
  let settled = false
  let onBreak: (() => void) | null = null
  const breakOff = (): void => onBreak?.()
  const settle = (clientGone: boolean): void => {
    if (settled) return
    settled = true
    log.running -= 1
    breakers.delete(breakOff)
    if (clientGone) log.clientLeft()
  }
  log.inference += 1
  log.running += 1
  breakers.add(breakOff)
  const broken = new Promise<BrokenConnection>((resolve) => {
    onBreak = () => {
      settle(false)
      resolve({ broken: 'reset' })
    }
  })
  incoming.signal.addEventListener('abort', () => settle(true), { once: true })
  let answer: Answer | BrokenConnection
  try {
    answer = await Promise.race([serve(), broken])
  } catch (error) {
    settle(false)
    throw error
  }
  if ('broken' in answer || typeof answer.body === 'string') {
    settle(false)
    return answer
  }
  return { ...answer, body: watch(answer.body, settle, (breakStream) => (onBreak = breakStream)) }
}

/** Reports to `settle` how the stream ended, and stops its source if a fault ended it early. */
function watch(
  body: BodyStream,
  settle: (clientGone: boolean) => void,
  onBreak: (run: () => void) => void,
): BodyStream {
  return (sink) => {
    let stop: (() => void) | null = null
    let over = false
    const finish = (how: () => void): void => {
      over = true
      settle(false)
      how()
      stop?.()
    }
    stop = body({
      write: (text) => sink.write(text),
      end: () => finish(() => sink.end()),
      fail: () => finish(() => sink.fail()),
    })
    if (over) stop()
    onBreak(() => finish(() => sink.fail()))
    return () => {
      settle(true)
      stop?.()
    }
  }
}
