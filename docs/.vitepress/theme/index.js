/** VitePress’s own theme, with tables that fit a phone. */
import theme from 'vitepress/theme';
import './tables.css';

// oxlint-disable-next-line import/no-default-export -- VitePress reads it.
export default theme;
