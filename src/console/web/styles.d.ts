/** Style sheets are files of the built application. */
declare module '*.css';
