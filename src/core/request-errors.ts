/** Errors of OpenAI's APIs that put the request at fault, whatever their types say: none, or `server_error`. */
import type { JsonObject } from './json.ts'

const CODES: ReadonlySet<string> = new Set([
  'context_length_exceeded',
  'string_above_max_length',
  'invalid_prompt',
  'cyber_policy',
  'bio_policy',
  'content_filter',
  'content_policy_violation',
  'image_content_policy_violation',
  'invalid_image',
  'invalid_image_format',
  'invalid_image_mode',
  'invalid_image_url',
  'invalid_base64_image',
  'unsupported_image_media_type',
  'empty_image_file',
  'image_too_large',
  'image_file_too_large',
  'image_too_small',
  'image_parse_error',
  'image_file_not_found',
  'failed_to_download_image',
])

/** OpenAI's and OpenRouter's responses, whose code for it may be `server_error`. */
const TOO_LONG = /\binput exceeds the context window\b/i

export const isRequestError = ({ code, message }: JsonObject): boolean =>
  (typeof code === 'string' && CODES.has(code)) || (typeof message === 'string' && TOO_LONG.test(message))
