"""From files to prepared data: archives, folders of images, arrays, client files."""
