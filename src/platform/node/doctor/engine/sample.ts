/** What is tokenized to compare: words, spaces, digits, accents, an emoji, another script, code. */
export const SAMPLE_TEXT = "Hello, wörld 👋!  It's 2026-11-21, 3.14 % of \t日本語 テキスト:\n\n    if (x != y) { return 'naïve' }  "

/** A conversation every chat template takes: it ends with the user's turn and has no system message. */
export const SAMPLE_CHAT = {
  messages: [
    { role: 'user', content: SAMPLE_TEXT },
    { role: 'assistant', content: 'A greeting.' },
    { role: 'user', content: 'And now?' },
  ],
}
