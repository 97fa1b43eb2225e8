/** The prompt of a request in one form for all protocols. */
import type { ChatPrompt } from './chat.ts'
import type { Text } from './utf8-text.ts'

export type Prompt =
  | {
      readonly form: 'texts'
      /** One prompt each. */
      readonly texts: readonly Text[]
      /** The engine adds its start tokens. */
      readonly addSpecial: boolean
    }
  | { readonly form: 'ids'; readonly lists: readonly (readonly number[])[] }
  | ChatPrompt
  /** An upload of sound: only its size counts. */
  | { readonly form: 'sound' }
  /** Counts by the size of the body. */
  | { readonly form: 'unreadable' }
