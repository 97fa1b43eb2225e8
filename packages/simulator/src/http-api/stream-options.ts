import { type Body, flagOf } from './body-fields.ts'
import { badRequest } from './wire-error.ts'

export interface StreamOptions {
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly continuousUsage: boolean
}

export function readStreamOptions(body: Body): StreamOptions {
  const stream = flagOf(body, 'stream')
  const options = body['stream_options']
  if (options === undefined || options === null) return { stream, includeUsage: false, continuousUsage: false }
  if (!stream) throw badRequest('Stream options can only be defined when `stream=True`.', 'stream_options')
  const fields = options as Body
  return {
    stream,
    includeUsage: fields['include_usage'] === true,
    continuousUsage: fields['continuous_usage_stats'] === true,
  }
}
