/** First characters of secrets that this project makes, which secret scanners and people recognise. */
export const KEY_PREFIX = 'sk-fl-'
