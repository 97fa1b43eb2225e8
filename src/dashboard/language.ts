/**
 * Some browsers on minimal systems report the language `en-US@posix`. Intl rejects it, and uPlot calls Intl while it
 * loads, so the page would stay blank. Import this module first.
 */
try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en' })
}
