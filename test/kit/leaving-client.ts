import { request } from 'node:http'

export interface LeavingPost {
  readonly url: string
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
  /** How the connection ends. */
  readonly by: 'close' | 'reset'
}

/** Posts JSON to a gateway, and leaves when `signal` is aborted. Resolves when the connection is closed. */
export function postAndLeave({ url, body, headers, by }: LeavingPost, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const posted = request(url, {
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/json', ...headers },
    })
    posted.on('response', (answer) => answer.on('error', () => {}).resume())
    posted.on('error', () => {}).on('close', resolve)
    signal.addEventListener('abort', () => (by === 'reset' ? posted.socket?.resetAndDestroy() : posted.destroy()))
    posted.end(JSON.stringify(body))
  })
}
