/** Streamed chat completions, as the playground reads them. */

export interface ChatProgress {
  readonly text: string
  /** Text that a reasoning model writes before its answer. */
  readonly reasoning: string
  /** As reported at the end; null: not yet. */
  readonly outputTokens: number | null
  /** Error event of a stream; null: none. */
  readonly problem: string | null
  /** Incomplete event at the end of what has arrived. */
  readonly rest: string
}

export const noProgress: ChatProgress = { text: '', reasoning: '', outputTokens: null, problem: null, rest: '' }

interface ChatChunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null }
  }[]
  readonly usage?: { readonly completion_tokens?: number } | null
  readonly error?: { readonly message?: string }
}

/** Adds text of the stream, which may end within an event. */
export function addToChat(progress: ChatProgress, arrived: string): ChatProgress {
  const events = (progress.rest + arrived).replaceAll('\r\n', '\n').split('\n\n')
  const rest = events.pop()!
  return events.reduce(withEvent, { ...progress, rest })
}

function withEvent(progress: ChatProgress, event: string): ChatProgress {
  const data = event
    .split('\n')
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).trim())
    .join('\n')
  if (data === '' || data === '[DONE]') return progress
  const { choices = [], usage, error } = JSON.parse(data) as ChatChunk
  const delta = choices[0]?.delta
  return {
    ...progress,
    text: progress.text + (delta?.content ?? ''),
    reasoning: progress.reasoning + (delta?.reasoning_content ?? ''),
    outputTokens: usage?.completion_tokens ?? progress.outputTokens,
    problem: error === undefined ? progress.problem : (error.message ?? 'The stream ended with an error.'),
  }
}
